//! Collectives as state machines over point-to-point messages.
//!
//! A machine posts its first messages when it starts and goes on whenever it is advanced. All machines are built on one
//! part, the [`Exchange`]. Each collective has [`TAGS`] tags of its own, by its number on its communicator.

pub mod alltoallv;
pub mod barrier;
pub mod broadcast;
mod exchange;
mod fold;
pub mod pieces;

pub use exchange::Exchange;

use super::group::Group;
use super::pool::Pool;
use crate::data::Data;
use crate::error::Result;
use crate::transport::Transport;

/// Tags of one collective.
pub const TAGS: u32 = 8;

/// A running collective.
pub trait Machine<T: Transport> {
    /// Goes on as far as possible without blocking; the result when complete, after which it is not called again.
    fn advance(&mut self, link: &Link<'_, T>) -> Result<Option<Data>>;

    /// Adds the ranks (of the world) whose messages are missing.
    fn missing(&self, ranks: &mut Vec<usize>);
}

/// What a machine talks through.
pub struct Link<'a, T: Transport> {
    pub transport: &'a T,
    /// Buffers to be used again.
    pub pool: &'a Pool,
    pub group: &'a Group,
    /// The first of the collective's tags.
    pub tag: u32,
}

impl<T: Transport> Link<'_, T> {
    pub fn rank(&self) -> usize {
        self.group.rank
    }

    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// The other ranks, from the next one on: when all ranks talk to all, not everybody starts with rank 0.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<T> {
        let (rank, size) = (self.rank(), self.size());
        (1..size).map(move |i| (rank + i) % size)
    }
}

/// First element of each part, and the end: `parts + 1` offsets for consecutive parts of `counts` elements.
fn offsets(counts: &[usize]) -> Vec<usize> {
    std::iter::once(0)
        .chain(counts.iter().scan(0, |at, &n| {
            *at += n;
            Some(*at)
        }))
        .collect()
}
