//! What ends a case before its time.

use shardmark_comm::{AgreeError, CommError};
use shardmark_host::Shortage;
use shardmark_networks::{GraphError, TrainError};
use shardmark_plan::event::Memory;

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
    /// The tensors of the case need more memory than there is.
    #[error(
        "memory: {0} of tensors by the plan for the ranks of this host (not counted: {uncounted}); split samples over more ranks \
         or lower batch or width",
        uncounted = Memory::UNCOUNTED
    )]
    WontFit(Shortage),
    /// Something else that is told in its own words.
    #[error("{0}")]
    Other(String),
}
