//! The messages that have come to one rank, by stream.

use crate::board::lock;
use crate::data::Data;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Messages with one stream name arrive in order: (communicator, sending rank of the world, tag).
pub(crate) type StreamName = (u32, usize, u32);

/// The right to the `number`-th message of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    stream: StreamName,
    number: u64,
}

/// Delivered by any rank, emptied by its owner, who sleeps on it.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    streams: Mutex<HashMap<StreamName, Stream>>,
    arrived: Condvar,
    epoch: AtomicU64,
}

/// Messages are numbered as they come, receives as they are posted; equal numbers match, so the order of waiting
/// does not matter.
#[derive(Debug, Default)]
struct Stream {
    /// Receives posted so far.
    posted: u64,
    /// Number of the first message in `queue`.
    first: u64,
    /// Messages that came; `None` where the receive has taken it.
    queue: VecDeque<Option<Data>>,
}

impl Mailbox {
    /// Puts a message in and wakes the owner.
    pub fn deliver(&self, stream: StreamName, data: Data) {
        let mut streams = lock(&self.streams);
        streams.entry(stream).or_default().queue.push_back(Some(data));
        self.bump();
    }

    /// Wakes the owner without a message.
    pub fn wake(&self) {
        let _streams = lock(&self.streams);
        self.bump();
    }

    /// Changes the epoch with the lock held, so that a sleeper cannot miss it between its look and its sleep.
    fn bump(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
        self.arrived.notify_one();
    }

    /// Posts a receive.
    pub fn expect(&self, stream: StreamName) -> Ticket {
        let mut streams = lock(&self.streams);
        let entry = streams.entry(stream).or_default();
        entry.posted += 1;
        Ticket { stream, number: entry.posted - 1 }
    }

    /// The message of a posted receive, if it has come.
    pub fn take(&self, ticket: &Ticket) -> Option<Data> {
        let mut streams = lock(&self.streams);
        let stream = streams.get_mut(&ticket.stream)?;
        let place = ticket.number.checked_sub(stream.first)? as usize;
        let data = stream.queue.get_mut(place)?.take();
        while let Some(None) = stream.queue.front() {
            stream.queue.pop_front();
            stream.first += 1;
        }
        // Nothing posted and nothing here: the stream may start again at number 0.
        if stream.queue.is_empty() && stream.posted == stream.first {
            streams.remove(&ticket.stream);
        }
        data
    }

    /// Changes with every message and every [`Mailbox::wake`].
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Sleeps until the epoch differs from `epoch`.
    pub fn sleep(&self, epoch: u64) {
        let streams = lock(&self.streams);
        let same = |_: &mut _| self.epoch() == epoch;
        drop(self.arrived.wait_while(streams, same).unwrap_or_else(PoisonError::into_inner));
    }
}
