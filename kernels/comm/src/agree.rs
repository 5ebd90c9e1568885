//! Ranks stop together.

use crate::comm::Comm;
use crate::error::CommError;
use std::fmt::Display;

/// What all ranks get when one of them failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgreeError {
    /// The lowest failing rank and its error.
    #[error("rank {rank}: {message}")]
    Failed {
        /// Rank in the world.
        rank: usize,
        /// Its error, as text.
        message: String,
    },
    /// The ranks could not be asked.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// Gives back the value if no rank failed, else an error on all ranks, which names the lowest failing rank and its
/// message. Collective: all ranks call it after a step that may fail on some of them.
pub fn agree<T, E: Display>(comm: &dyn Comm, result: Result<T, E>) -> Result<T, AgreeError> {
    let (value, message) = match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error.to_string())),
    };
    match (comm.first_failure(message.as_deref())?, value) {
        (None, Some(value)) => Ok(value),
        (Some(failure), _) => Err(AgreeError::Failed { rank: failure.rank, message: failure.message }),
        // Cannot happen with a correct transport: this rank failed and nobody heard of it.
        (None, None) => {
            Err(AgreeError::Failed { rank: comm.global_rank(comm.rank()), message: message.unwrap_or_default() })
        }
    }
}
