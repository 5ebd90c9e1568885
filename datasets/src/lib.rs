//! Generators and readers of the data that the workloads train on.
//!
//! - [`cosmology`], [`field`], [`universe`]: simulated universes, equal to the bit for any number of threads.
//! - [`cosmoflow`]: their files, made, read in parts and inspected.
//! - [`store`]: who keeps which sample and sends it to whom.

pub mod cosmoflow;
pub mod cosmology;
mod error;
pub mod field;
mod parallel;
mod random;
pub mod store;
pub mod universe;

pub use error::{Error, Result};
