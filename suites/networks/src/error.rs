//! What can go wrong while a rank trains.

use shardmark_comm::CommError;
use shardmark_layers::LayerError;

/// Why a training step ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A layer failed.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The communicator does not have the grid's number of ranks.
    #[error("ranks: expected {expected} for grid {grid}, got {got}; start as many ranks as the grid has")]
    Ranks {
        /// Ranks of the grid.
        expected: usize,
        /// The grid.
        grid: String,
        /// Ranks of the communicator.
        got: usize,
    },
    /// A parameter with this name or size does not exist.
    #[error("parameter {name}: expected {expected} values, got {got}; use the weights of the same network and width")]
    Parameter {
        /// Full name.
        name: String,
        /// Values of the network.
        expected: usize,
        /// Values given.
        got: usize,
    },
}
