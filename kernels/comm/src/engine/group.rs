//! The ranks of a communicator.

use crate::transport::Address;

/// A communicator's number, its ranks in the world and this rank's place.
pub(super) struct Group {
    pub context: u32,
    pub rank: usize,
    pub members: Vec<usize>,
}

impl Group {
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The other ranks, by their numbers in the world.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        self.members.iter().enumerate().filter(|(i, _)| *i != self.rank).map(|(_, &member)| member)
    }

    pub fn address(&self, peer: usize, tag: u32) -> Address {
        Address { context: self.context, peer, global: self.members[peer], tag }
    }
}
