//! What can go wrong between ranks.

use crate::data::Dtype;
use crate::{KEYS, MAX_KEY};

/// Result of a communication call.
pub type Result<T> = std::result::Result<T, CommError>;

/// An error of a communicator. Ranks are named by their rank in the world. After an error the communicator, and every
/// one that shares its ranks, can only be dropped: the peers are in an unknown state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommError {
    /// A peer or root that is not a rank of the communicator.
    #[error("{what}: expected a rank below {size}, got {got}; pass a rank of this communicator")]
    Rank {
        /// The call.
        what: &'static str,
        /// Ranks of the communicator.
        size: usize,
        /// The rank that was passed.
        got: usize,
    },
    /// A key outside the range that is free for users.
    #[error("{what}: expected a key below {KEYS}, got {got}; keys up to {MAX_KEY} are free, those above are reserved")]
    Key {
        /// The call.
        what: &'static str,
        /// The key that was passed.
        got: u32,
    },
    /// A payload of another element type than asked for.
    #[error("{what}: expected {expected}, got {got}; use one element type on both sides")]
    Dtype {
        /// The call.
        what: String,
        /// The type asked for.
        expected: Dtype,
        /// The type that came.
        got: Dtype,
    },
    /// A message of another length than the receive was posted with.
    #[error("{what}: expected {expected} elements, got {got}; post the receive with the length that is sent")]
    Length {
        /// The call with peer and key.
        what: String,
        /// Elements asked for.
        expected: usize,
        /// Elements that came, or "more".
        got: String,
    },
    /// Counts that do not fit the communicator or the payload.
    #[error("{what}: expected {expected}, got {got}; pass one count for each rank, adding up to the payload")]
    Counts {
        /// The call and the array.
        what: &'static str,
        /// The number or sum that fits.
        expected: usize,
        /// The number or sum that was passed.
        got: usize,
    },
    /// A request that this communicator does not know.
    #[error(
        "wait: expected a request of this rank that was not waited for yet, got number {got}; wait once, on the communicator that started it"
    )]
    Request {
        /// Number of the request.
        got: u64,
    },
    /// Another rank of the job failed.
    #[error("rank {rank} failed: {message}")]
    RankFailed {
        /// The rank that failed first.
        rank: usize,
        /// Its panic message or error.
        message: String,
    },
    /// A message that can never come, because its sender has returned.
    #[error("{what}: expected a message, got none before rank {rank} returned; every receive needs its send")]
    RankFinished {
        /// The call with peer and key.
        what: String,
        /// The rank that returned.
        rank: usize,
    },
    /// A transport that could not be set up or that reports an error of its own.
    #[error("{what}: {message}")]
    Transport {
        /// The call.
        what: String,
        /// The transport's own words, with a remedy where there is one.
        message: String,
    },
}

impl CommError {
    pub(crate) fn payload(expected: Dtype, got: Dtype) -> Self {
        CommError::Dtype { what: "payload".into(), expected, got }
    }
}
