//! One suite for every transport: whatever passes it can carry a training step.
//!
//! All payloads are exact (small integers, or float sums whose order is prescribed), so every comparison is for equality.

mod collectives;
mod overlap;
mod point;
mod random;
mod split;
mod storm;

use crate::comm::Comm;
use crate::error::CommError;
use std::fmt::Debug;

/// A check that failed.
#[derive(Debug, thiserror::Error)]
#[error("conformance of {transport}, {check}, rank {rank} of {size}: {cause}")]
pub struct ConformanceError {
    /// Name of the transport.
    pub transport: &'static str,
    /// Name of the check.
    pub check: &'static str,
    /// This rank in the communicator that was checked.
    pub rank: usize,
    /// Its size.
    pub size: usize,
    /// What was wrong.
    pub cause: Wrong,
}

/// What can be wrong in a check.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// A call failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A call gave something else.
    #[error("{0}")]
    Value(String),
}

type Check = fn(&dyn Comm) -> Result<(), Wrong>;

/// The checks in the order in which they run.
const CHECKS: &[(&str, Check)] = &[
    ("ranks", point::ranks),
    ("ring of every element type", point::ring),
    ("message to itself", point::itself),
    ("order within a key", point::order),
    ("keys are independent", point::keys),
    ("wrong arguments", point::wrong_arguments),
    ("test and progress", point::test_and_progress),
    ("barrier", collectives::barrier),
    ("allreduce", collectives::allreduce),
    ("allreduce adds in rank order", collectives::rank_order),
    ("reduce_scatter", collectives::reduce_scatter),
    ("allgatherv", collectives::allgatherv),
    ("alltoallv", collectives::alltoallv),
    ("broadcast", collectives::broadcast),
    ("tree_allreduce", collectives::tree_allreduce),
    ("agreement", collectives::agreement),
    ("many allreduces at once", overlap::many_allreduces),
    ("messages between collectives", overlap::messages_between),
    ("message storm", storm::storm),
];

/// Runs every check on `comm`, then splits it in two groups of every size and runs every check on these. Collective.
/// Gives the number of checks that this rank has passed.
pub fn run_all(comm: &dyn Comm) -> Result<usize, ConformanceError> {
    let mut passed = run_checks(comm)?;
    let failed = |check, cause| error(comm, check, cause);
    for first in 1..=comm.size() {
        let color = u32::from(comm.rank() >= first);
        let part = comm.split(Some(color), 0).map_err(|e| failed("split", e.into()))?;
        let part = split::expect(part).map_err(|cause| failed("split", cause))?;
        passed += run_checks(&*part)?;
    }
    for (name, check) in [
        ("long allreduce", overlap::long_allreduce as Check),
        ("scattered and gathered updates", overlap::scatter_and_gather),
        ("split", split::shapes),
        ("split along every axis of every process grid", split::grids),
        ("split of a split", split::nested),
        ("progress across communicators", split::progress_across),
    ] {
        check(comm).map_err(|cause| failed(name, cause))?;
        passed += 1;
    }
    Ok(passed)
}

fn run_checks(comm: &dyn Comm) -> Result<usize, ConformanceError> {
    for (name, check) in CHECKS {
        check(comm).map_err(|cause| error(comm, name, cause))?;
    }
    Ok(CHECKS.len())
}

fn error(comm: &dyn Comm, check: &'static str, cause: Wrong) -> ConformanceError {
    ConformanceError { transport: comm.name(), check, rank: comm.rank(), size: comm.size(), cause }
}

/// Compares for equality.
fn equal<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Result<(), Wrong> {
    if got == expected {
        return Ok(());
    }
    // Long payloads would bury the message.
    let short = |value: &T| format!("{value:?}").chars().take(200).collect::<String>();
    Err(Wrong::Value(format!("{what}: expected {}, got {}", short(&expected), short(&got))))
}

/// A value that names rank and place, exact in every element type but u8, where it wraps.
fn mark(rank: usize, i: usize) -> i32 {
    (rank * 1000 + i % 1000) as i32
}

/// `len` marks of a rank.
fn marks(rank: usize, len: usize) -> Vec<i32> {
    (0..len).map(|i| mark(rank, i)).collect()
}

/// Lengths around the limits: empty, one, odd, one round, several chunks that do not divide.
const LENGTHS: [usize; 6] = [0, 1, 3, 1023, 1025, 5003];
