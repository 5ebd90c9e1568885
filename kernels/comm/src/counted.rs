//! A communicator that counts what goes through it.

use crate::comm::{Combine, Comm, Failure, Request};
use crate::data::{Data, Dtype};
use crate::error::Result;
use crate::reduce::ReduceOp;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The two ends of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Messages that left this rank.
    Send,
    /// Messages that came here.
    Recv,
}

/// A collective; one call is one, whatever messages the transport makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Blocking or not. Payload: the reduced vector.
    Allreduce,
    /// Payload: the vector before the reduction.
    ReduceScatter,
    /// Payload: the vectors of all ranks together.
    Allgatherv,
    /// Payload: what this rank hands out, its own part included.
    Alltoallv,
    /// Payload: the vector.
    Broadcast,
    /// Payload: the merged vector.
    TreeAllreduce,
    /// No payload.
    Barrier,
    /// [`Comm::first_failure`]; no payload.
    Agree,
    /// No payload.
    Split,
}

impl Collective {
    fn name(self) -> &'static str {
        match self {
            Collective::Allreduce => "allreduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Allgatherv => "allgatherv",
            Collective::Alltoallv => "alltoallv",
            Collective::Broadcast => "broadcast",
            Collective::TreeAllreduce => "tree_allreduce",
            Collective::Barrier => "barrier",
            Collective::Agree => "agree",
            Collective::Split => "split",
        }
    }
}

/// Messages that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Sent or received.
    pub direction: Direction,
    /// The other rank, as a rank of the world.
    pub peer: usize,
    /// The key.
    pub key: u32,
}

/// A number of messages or calls, and their payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages or calls.
    pub count: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// What one rank has sent, received and called. A plan that counts what it foresees in the same way must give an equal
/// value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Point-to-point messages, counted when they are started.
    pub messages: BTreeMap<Message, Tally>,
    /// Collectives by kind and number of ranks in the group.
    pub collectives: BTreeMap<(Collective, usize), Tally>,
}

impl Counts {
    /// Counts one message.
    pub fn record_message(&mut self, direction: Direction, peer: usize, key: u32, bytes: u64) {
        self.messages.entry(Message { direction, peer, key }).or_default().add(Tally { count: 1, bytes });
    }

    /// Counts one call of a collective in a group of `size` ranks.
    pub fn record_collective(&mut self, collective: Collective, size: usize, bytes: u64) {
        self.collectives.entry((collective, size)).or_default().add(Tally { count: 1, bytes });
    }

    /// All messages of one direction.
    pub fn total(&self, direction: Direction) -> Tally {
        sum(self.messages.iter().filter(|(m, _)| m.direction == direction).map(|(_, t)| t))
    }

    /// All calls of one collective.
    pub fn calls(&self, collective: Collective) -> Tally {
        sum(self.collectives.iter().filter(|((kind, _), _)| *kind == collective).map(|(_, t)| t))
    }
}

fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    tallies.fold(Tally::default(), |mut total, tally| {
        total.add(*tally);
        total
    })
}

impl fmt::Display for Counts {
    /// A table: operation, number of ranks, messages or calls, payload bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15} {:>6} {:>10} {:>16}", "operation", "ranks", "count", "payload bytes")?;
        for (name, direction) in [("send", Direction::Send), ("recv", Direction::Recv)] {
            let Tally { count, bytes } = self.total(direction);
            write!(f, "\n{name:<15} {:>6} {count:>10} {bytes:>16}", "")?;
        }
        for ((collective, size), Tally { count, bytes }) in &self.collectives {
            write!(f, "\n{:<15} {size:>6} {count:>10} {bytes:>16}", collective.name())?;
        }
        Ok(())
    }
}

/// Counts the calls of any communicator and of those split from it.
pub struct Counted<C: Comm> {
    inner: C,
    counts: Rc<RefCell<Counts>>,
}

impl<C: Comm> Counted<C> {
    /// Counts from zero. `inner` may be a reference or a box.
    pub fn new(inner: C) -> Self {
        Self { inner, counts: Rc::default() }
    }

    /// The counts since the start or the last reset.
    pub fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        *self.counts.borrow_mut() = Counts::default();
    }

    fn message(&self, direction: Direction, peer: usize, key: u32, bytes: usize) {
        self.counts.borrow_mut().record_message(direction, self.inner.global_rank(peer), key, bytes as u64);
    }

    fn collective(&self, collective: Collective, bytes: usize) {
        self.counts.borrow_mut().record_collective(collective, self.inner.size(), bytes as u64);
    }
}

impl<C: Comm> Comm for Counted<C> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn global_rank(&self, peer: usize) -> usize {
        self.inner.global_rank(peer)
    }

    fn isend(&self, peer: usize, key: u32, data: Data) -> Result<Request> {
        let bytes = data.bytes();
        let request = self.inner.isend(peer, key, data)?;
        self.message(Direction::Send, peer, key, bytes);
        Ok(request)
    }

    fn irecv(&self, peer: usize, key: u32, dtype: Dtype, len: usize) -> Result<Request> {
        let request = self.inner.irecv(peer, key, dtype, len)?;
        self.message(Direction::Recv, peer, key, len * dtype.size());
        Ok(request)
    }

    fn iallreduce(&self, data: Data, op: ReduceOp) -> Result<Request> {
        self.collective(Collective::Allreduce, data.bytes());
        self.inner.iallreduce(data, op)
    }

    fn ireduce_scatter(&self, data: Data, counts: &[usize], op: ReduceOp) -> Result<Request> {
        self.collective(Collective::ReduceScatter, data.bytes());
        self.inner.ireduce_scatter(data, counts, op)
    }

    fn iallgatherv(&self, data: Data, counts: &[usize]) -> Result<Request> {
        self.collective(Collective::Allgatherv, data.bytes());
        self.inner.iallgatherv(data, counts)
    }

    fn buffer(&self, dtype: Dtype, len: usize) -> Data {
        self.inner.buffer(dtype, len)
    }

    fn recycle(&self, data: Data) {
        self.inner.recycle(data);
    }

    fn progress(&self) -> Result<()> {
        self.inner.progress()
    }

    fn test(&self, request: &Request) -> Result<bool> {
        self.inner.test(request)
    }

    fn wait(&self, request: Request) -> Result<Data> {
        self.inner.wait(request)
    }

    fn alltoallv(&self, data: Data, send_counts: &[usize], recv_counts: &[usize]) -> Result<Data> {
        self.collective(Collective::Alltoallv, data.bytes());
        self.inner.alltoallv(data, send_counts, recv_counts)
    }

    fn broadcast(&self, root: usize, data: Data) -> Result<Data> {
        self.collective(Collective::Broadcast, data.bytes());
        self.inner.broadcast(root, data)
    }

    fn tree_allreduce(&self, data: Data, combine: &mut Combine<'_>) -> Result<Data> {
        self.collective(Collective::TreeAllreduce, data.bytes());
        self.inner.tree_allreduce(data, combine)
    }

    fn barrier(&self) -> Result<()> {
        self.collective(Collective::Barrier, 0);
        self.inner.barrier()
    }

    fn first_failure(&self, failure: Option<&str>) -> Result<Option<Failure>> {
        self.collective(Collective::Agree, 0);
        self.inner.first_failure(failure)
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Comm>>> {
        self.collective(Collective::Split, 0);
        let part = self.inner.split(color, key)?;
        Ok(part.map(|inner| Box::new(Counted { inner, counts: self.counts.clone() }) as Box<dyn Comm>))
    }
}
