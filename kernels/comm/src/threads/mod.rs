//! Ranks that are threads of this process.
//!
//! Messages are moved, never copied; a blocked rank polls for a while, if it has a core of its own, and sleeps then; a rank that panics or returns an error wakes all others
//! with an error that names it, and a receive from a rank that has returned fails, so nothing waits for ever on
//! a rank that is gone.

pub(crate) mod mailbox;
#[cfg(test)]
mod tests;
mod transport;

use crate::board::Board;
use crate::comm::Comm;
use crate::engine::Engine;
use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use transport::{Threads, World};

/// Settings of a job.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the ranks show what they are doing, for a [`crate::Watchdog`].
    pub board: Board,
    /// Bytes of stack for each rank.
    pub stack: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { board: Board::new(), stack: 8 << 20 }
    }
}

/// Why a job failed: the first rank that did. The errors that other ranks got because of it are dropped.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E: Display> {
    /// The closure panicked.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The rank.
        rank: usize,
        /// The panic message.
        message: String,
    },
    /// The closure returned an error.
    #[error("rank {rank}: {error}")]
    Returned {
        /// The rank.
        rank: usize,
        /// The error.
        error: E,
    },
    /// A thread could not be started.
    #[error(
        "threads: expected {ranks} threads, got {rank} ({error}); ask for fewer ranks or raise the process limit (ulimit -u)"
    )]
    Spawn {
        /// Ranks asked for.
        ranks: usize,
        /// The rank whose thread could not be started.
        rank: usize,
        /// The system's error.
        error: std::io::Error,
    },
}

/// Runs `f` on `ranks` threads, each with its own communicator, and gives what they return in rank order, or the first
/// failure. Returns when all threads have ended. With 0 ranks there is nothing to run.
pub fn run<T, E, F>(ranks: usize, options: &Options, f: F) -> Result<Vec<T>, RunError<E>>
where
    T: Send,
    E: Display + Send,
    F: Fn(&dyn Comm) -> Result<T, E> + Sync,
{
    let world = Arc::new(World::new(ranks));
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let (world, f) = (&world, &f);
            let builder = std::thread::Builder::new().name(format!("rank {rank}")).stack_size(options.stack);
            match builder.spawn_scoped(scope, move || run_rank(rank, world, &options.board, f)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that run already must not wait for it.
                    world.fail(rank, error.to_string());
                    return Err(RunError::Spawn { ranks, rank, error });
                }
            }
        }
        // The closures' panics are caught inside; a panic here would be one of ours.
        Ok(threads.into_iter().map(|t| t.join().unwrap_or_else(|p| Err(Cause::Panic(text(&*p))))).collect::<Vec<_>>())
    })?;
    let first = world.first_failure();
    let mut values = Vec::with_capacity(ranks);
    for (rank, end) in ends.into_iter().enumerate() {
        match end {
            Ok(value) => values.push(value),
            Err(_) if first.is_some_and(|first| first != rank) => {}
            Err(Cause::Panic(message)) => return Err(RunError::Panicked { rank, message }),
            Err(Cause::Error(error)) => return Err(RunError::Returned { rank, error }),
        }
    }
    Ok(values)
}

/// Why one rank's closure gave no value.
enum Cause<E> {
    Panic(String),
    Error(E),
}

/// Runs one rank's closure on its own thread and tells the world how it ended.
fn run_rank<T, E: Display>(
    rank: usize,
    world: &Arc<World>,
    board: &Board,
    f: &(impl Fn(&dyn Comm) -> Result<T, E> + Sync),
) -> Result<T, Cause<E>> {
    let slot = board.join(rank);
    let end = catch_unwind(AssertUnwindSafe(|| {
        let transport = Threads::new(rank, world.clone());
        let comm = Engine::sharing(transport, (rank, world.size()), slot.clone(), world.buffers());
        f(&comm)
    }));
    slot.finish();
    match end {
        Ok(Ok(value)) => {
            world.finish(rank);
            Ok(value)
        }
        Ok(Err(error)) => {
            world.fail(rank, error.to_string());
            Err(Cause::Error(error))
        }
        Err(payload) => {
            let message = text(&*payload);
            world.fail(rank, format!("panicked: {message}"));
            Err(Cause::Panic(message))
        }
    }
}

/// The message of a panic.
fn text(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.clone(),
        _ => "no message".into(),
    }
}
