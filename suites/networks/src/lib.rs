//! Networks as chains of layers, laid out on a process grid, and the training step that runs them.
//!
//! Data flows one way: a [`Cosmoflow`] spec becomes a [`Graph`] (shapes), with a grid a [`NetPlan`] (regions and
//! transfers of any rank). From the plan come both the [Steps](NetPlan::steps), without a tensor, and the [`Trainer`],
//! which executes the same transfers on real blocks.

mod accounting;
mod backward;
mod boxes;
mod bucket;
mod clock;
mod cosmoflow;
mod counts;
mod error;
mod exchange;
mod forward;
mod graph;
mod groups;
mod halo;
mod init;
mod lone;
mod plan;
mod pool;
mod slabs;
mod stage;
mod steps;
mod trainer;
mod update;

#[cfg(test)]
mod tests;

pub use accounting::{PaperCost, paper_accounting};
pub use clock::{Clock, LayerSeconds, Phases};
pub use cosmoflow::{Cosmoflow, TARGETS, Variant};
pub use error::TrainError;
pub use graph::{Graph, GraphError, Lone, Node};
pub use halo::HaloExchange;
pub use init::{InitScheme, initial_values};
pub use plan::{LayerPlan, NetPlan};
pub use steps::StepOptions;
pub use trainer::{Parameter, Trainer};
