//! What ends a case before its time.

use shardmark_comm::{AgreeError, CommError};
use shardmark_networks::{GraphError, TrainError};

/// Why a rank cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The training step failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Some rank failed, and all agreed to stop.
    #[error(transparent)]
    Agree(#[from] AgreeError),
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// The network cannot be built.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A sample cannot be read.
    #[error(transparent)]
    Data(#[from] shardmark_datasets::Error),
    /// The record cannot be written.
    #[error(transparent)]
    Store(#[from] shardmark_store::Error),
    /// The case line or its context is wrong.
    #[error(transparent)]
    Plan(#[from] shardmark_plan::PlanError),
    /// A loss that is not a number.
    #[error("loss: expected a finite number in step {step}, got {loss}; lower lr or check the input")]
    Diverged {
        /// The step.
        step: usize,
        /// The loss.
        loss: f64,
    },
    /// The case needs more memory than there is.
    #[error(
        "memory: expected at most {available:.1} GiB, got {needed:.1} GiB for the ranks of this host; split samples \
         over more ranks or lower batch or width"
    )]
    WontFit {
        /// GiB that can be had.
        available: f64,
        /// GiB that the ranks of this host need.
        needed: f64,
    },
    /// Something else that is told in its own words.
    #[error("{0}")]
    Other(String),
}
