//! What a transport has to do; everything else is built on it by [`crate::engine`].

use crate::comm::KEYS;
use crate::data::Data;
use crate::engine::TAGS;
use crate::error::Result;

/// One end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The communicator: 0 is the world, others come from [`Transport::open`].
    pub context: u32,
    /// The peer's rank in that communicator.
    pub peer: usize,
    /// The peer's rank in the world.
    pub global: usize,
    /// Below 2^21: users' keys, then those of the collectives.
    pub tag: u32,
}

/// Point-to-point messages of one rank with all others.
///
/// Messages from one rank with one context and tag arrive in order; receives match them in the order in which they were
/// started. A send must complete without the receiver being in a call.
pub trait Transport {
    /// A send that is running; it owns its buffer.
    type Sending;
    /// A receive that is running; it owns its buffer.
    type Receiving;

    /// The name that [`crate::Comm::name`] gives.
    fn name(&self) -> &'static str;

    /// Starts a send.
    fn start_send(&self, to: Address, data: Data) -> Result<Self::Sending>;

    /// Whether a receive needs a buffer of its own, with room for the message.
    const RECEIVES_INTO_BUFFERS: bool;

    /// Starts a receive of `len` elements; `buffer` has no elements, their type, and room where that is needed.
    fn start_recv(&self, from: Address, buffer: Data, len: usize) -> Result<Self::Receiving>;

    /// The buffer (or an empty one) when the send is complete; not called again after that.
    fn poll_send(&self, sending: &mut Self::Sending) -> Result<Option<Data>>;

    /// The message when it has arrived, of the length that was sent; not called again after that.
    fn poll_recv(&self, receiving: &mut Self::Receiving) -> Result<Option<Data>>;

    /// Lets the transport move messages, without blocking.
    fn poke(&self) -> Result<()>;

    /// A number that changes whenever a poll may have a new answer.
    fn epoch(&self) -> u64;

    /// Returns when [`Transport::epoch`] differs from `epoch`, or sooner; fails when another rank has failed.
    /// `round` counts the calls in a row during one wait.
    fn park(&self, epoch: u64, round: u32) -> Result<()>;

    /// Prepares a new communicator. Called by all ranks of `parent`, after all of them have entered the split:
    /// `member` is the new context, the colour and the position in it, or `None` for a rank that gets none.
    fn open(&self, parent: u32, member: Option<Member>) -> Result<()>;

    /// Ends a communicator made by [`Transport::open`].
    fn close(&self, context: u32);
}

/// A rank's place in a new communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Number of the new communicator; equal on all its ranks and on no other communicator of any of them.
    pub context: u32,
    /// Equal on the ranks of the new communicator, different between those made by one split.
    pub color: u32,
    /// The rank in the new communicator.
    pub rank: usize,
}

impl Address {
    /// A receive from here in words, for errors: `recv from rank 1 (key 17)`.
    pub fn describe_recv(&self) -> String {
        match self.tag.checked_sub(KEYS) {
            None => format!("recv from rank {} (key {})", self.global, self.tag),
            Some(tag) => format!("collective {}, part of rank {}", tag / TAGS, self.global),
        }
    }
}
