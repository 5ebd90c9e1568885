//! The communicator on any transport.
//!
//! One [`core::Core`] for each rank keeps all outstanding operations of all its communicators, so that a rank blocked on one
//! communicator still advances the collectives of the others. Collectives are machines ([`collectives`]) over the
//! transport's messages.

mod collectives;
mod core;
mod group;
mod pool;
mod split;
mod tree;

pub(crate) use self::collectives::TAGS;
use self::collectives::pieces::Pieces;
use self::collectives::{Machine, alltoallv, barrier, broadcast};
use self::core::{Core, Op};
use self::group::Group;
pub(crate) use self::pool::Pool;
use crate::board::{Inside, Operation, Slot};
use crate::comm::{Combine, Comm, Failure, KEYS, Request};
use crate::data::{Data, Dtype};
use crate::error::{CommError, Result};
use crate::reduce::ReduceOp;
use crate::transport::{Address, Transport};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A communicator on a transport.
pub struct Engine<T: Transport> {
    core: Rc<Core<T>>,
    group: Rc<Group>,
    /// Collectives started so far; equal on all ranks.
    started: Cell<u32>,
}

impl<T: Transport + 'static> Engine<T> {
    /// The communicator of all `size` ranks, on the transport of rank `rank`. `slot` is the rank's line of a
    /// [`crate::Board`].
    pub fn world(transport: T, rank: usize, size: usize, slot: Arc<Slot>) -> Self {
        Self::sharing(transport, (rank, size), slot, Arc::new(Pool::new(1)))
    }

    /// The same for rank `rank` of `size`, with buffers from `pool`.
    pub(crate) fn sharing(transport: T, (rank, size): (usize, usize), slot: Arc<Slot>, pool: Arc<Pool>) -> Self {
        let group = Group { context: 0, rank, members: (0..size).collect() };
        Self { core: Rc::new(Core::new(transport, slot, pool)), group: Rc::new(group), started: Cell::new(0) }
    }

    fn check_rank(&self, what: &'static str, got: usize) -> Result<()> {
        let size = self.size();
        if got < size { Ok(()) } else { Err(CommError::Rank { what, size, got }) }
    }

    /// Where a message of a user goes to or comes from.
    fn address(&self, what: &'static str, peer: usize, key: u32) -> Result<Address> {
        self.check_rank(what, peer)?;
        if key < KEYS { Ok(self.group.address(peer, key)) } else { Err(CommError::Key { what, got: key }) }
    }

    /// Starts a collective whose machine is made by `make`.
    fn start<M: Machine<T> + 'static>(
        &self,
        name: &'static str,
        make: impl FnOnce(&collectives::Link<'_, T>) -> Result<M>,
    ) -> Result<Request> {
        let (tag, operation) = self.next(name);
        let machine = make(&collectives::Link {
            transport: &self.core.transport,
            pool: &self.core.pool,
            group: &self.group,
            tag,
        })?;
        Ok(self.core.insert(operation, Op::Collective { machine: Box::new(machine), group: self.group.clone(), tag }))
    }

    /// A collective from start to end.
    fn run<M: Machine<T> + 'static>(
        &self,
        name: &'static str,
        make: impl FnOnce(&collectives::Link<'_, T>) -> Result<M>,
    ) -> Result<Data> {
        let request = self.start(name, make)?;
        self.core.wait(request)
    }
}

impl<T: Transport> Engine<T> {
    /// The first tag and the name of the next collective.
    fn next(&self, name: &'static str) -> (u32, Operation) {
        let number = self.started.get();
        // Tags come round again; by then, or else by the order on a tag, they are unambiguous.
        self.started.set((number + 1) % (KEYS / TAGS));
        (KEYS + TAGS * number, Operation { name, peer: None, key: Some(number) })
    }

    /// Shows on the board that this rank is in a call of the transport in which all ranks of the communicator meet. The
    /// transport does not tell who is missing: it may be any of the others.
    fn meet(&self, name: &'static str) -> Inside<'_> {
        let inside = self.core.slot.enter(self.next(name).1);
        self.core.slot.missing(|ranks| ranks.extend(self.group.others()));
        inside
    }
}

impl<T: Transport + 'static> Comm for Engine<T> {
    fn rank(&self) -> usize {
        self.group.rank
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn name(&self) -> &'static str {
        self.core.transport.name()
    }

    fn global_rank(&self, peer: usize) -> usize {
        self.group.members[peer]
    }

    fn isend(&self, peer: usize, key: u32, data: Data) -> Result<Request> {
        let to = self.address("isend", peer, key)?;
        let operation = Operation { name: "send", peer: Some(to.global), key: Some(key) };
        Ok(self.core.insert(operation, Op::Send { sending: self.core.transport.start_send(to, data)?, to: to.global }))
    }

    fn irecv(&self, peer: usize, key: u32, dtype: Dtype, len: usize) -> Result<Request> {
        let from = self.address("irecv", peer, key)?;
        let operation = Operation { name: "recv", peer: Some(from.global), key: Some(key) };
        Ok(self.core.insert(operation, Op::Recv(self.core.receive(from, dtype, len)?)))
    }

    fn iallreduce(&self, data: Data, op: ReduceOp) -> Result<Request> {
        self.start("allreduce", |link| Pieces::allreduce(link, data, op))
    }

    fn ireduce_scatter(&self, data: Data, counts: &[usize], op: ReduceOp) -> Result<Request> {
        check_counts("reduce_scatter: counts", counts, self.size(), data.len())?;
        self.start("reduce_scatter", |link| Pieces::reduce_scatter(link, data, counts, op))
    }

    fn iallgatherv(&self, data: Data, counts: &[usize]) -> Result<Request> {
        check_counts("allgatherv: counts", counts, self.size(), data.len())?;
        self.start("allgatherv", |link| Pieces::allgather(link, data, counts))
    }

    fn buffer(&self, dtype: Dtype, len: usize) -> Data {
        self.core.pool.take(dtype, len)
    }

    fn recycle(&self, data: Data) {
        self.core.pool.give(data);
    }

    fn progress(&self) -> Result<()> {
        self.core.progress()
    }

    fn test(&self, request: &Request) -> Result<bool> {
        self.core.test(request)
    }

    fn wait(&self, request: Request) -> Result<Data> {
        self.core.wait(request)
    }

    fn alltoallv(&self, data: Data, send_counts: &[usize], recv_counts: &[usize]) -> Result<Data> {
        check_counts("alltoallv: send counts", send_counts, self.size(), data.len())?;
        check_counts("alltoallv: receive counts", recv_counts, self.size(), recv_counts.iter().sum())?;
        check_equal("alltoallv: own count", send_counts[self.rank()], recv_counts[self.rank()])?;
        self.run("alltoallv", |link| alltoallv::start(link, data, send_counts, recv_counts))
    }

    fn broadcast(&self, root: usize, data: Data) -> Result<Data> {
        self.check_rank("broadcast", root)?;
        self.run("broadcast", |link| broadcast::Broadcast::start(link, root, data))
    }

    fn tree_allreduce(&self, data: Data, combine: &mut Combine<'_>) -> Result<Data> {
        tree::tree_allreduce(self, data, combine)
    }

    fn barrier(&self) -> Result<()> {
        self.run("barrier", barrier::Barrier::start).map(|_| ())
    }

    fn first_failure(&self, failure: Option<&str>) -> Result<Option<Failure>> {
        split::first_failure(self, failure)
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Comm>>> {
        split::split(self, color, key)
    }
}

impl<T: Transport> Drop for Engine<T> {
    fn drop(&mut self) {
        // A collective that still runs needs the context; then it lives as long as the transport.
        if self.group.context != 0 && Rc::strong_count(&self.group) == 1 {
            let _inside = self.meet("close");
            self.core.transport.close(self.group.context);
        }
    }
}

fn check_counts(what: &'static str, counts: &[usize], size: usize, total: usize) -> Result<()> {
    check_equal(what, counts.len(), size)?;
    check_equal(what, counts.iter().sum(), total)
}

fn check_equal(what: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(CommError::Counts { what, expected, got }) }
}
