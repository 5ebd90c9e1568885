//! Suite text to cases, and what a case's process tells the program that started it.
//!
//! A [`Case`] is one line of text (`cosmoflow width=32 grid=1x2x1x1 ...`): parsed, printed, hashed, stored and pasted
//! as a repro. A [`Suite`] is a TOML file whose lists multiply out to cases ([`expand`]). The rank program reports with
//! [`event::Event`] lines and an [`exit`] code, which [`outcome`] turns into one word per case.

pub mod case;
pub mod check_ranks;
pub mod context;
mod error;
pub mod event;
pub mod exit;
pub mod expand;
pub mod keys;
pub mod machine;
mod meaning;
pub mod outcome;
pub mod process;
pub mod provenance;
pub mod suite;
pub mod value;

pub use case::Case;
pub use context::Context;
pub use error::PlanError;
pub use event::Event;
pub use expand::{Planned, Skip};
pub use outcome::Outcome;
pub use suite::Suite;
