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

    pub fn address(&self, peer: usize, tag: u32) -> Address {
        Address { context: self.context, peer, global: self.members[peer], tag }
    }
}
