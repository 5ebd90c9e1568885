//! All outstanding operations of one rank.

use super::collectives::{Link, Machine};
use super::group::Group;
use super::pool::Pool;
use crate::board::{Operation, Slot};
use crate::comm::Request;
use crate::data::{Data, Dtype};
use crate::error::{CommError, Result};
use crate::transport::{Address, Transport};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What the communicators of one rank share.
pub(super) struct Core<T: Transport> {
    pub transport: T,
    /// Buffers to be used again.
    pub pool: Arc<Pool>,
    pub slot: Arc<Slot>,
    table: RefCell<Table<T>>,
    /// The first number that no communicator of this rank has used.
    pub next_context: Cell<u32>,
}

struct Table<T: Transport> {
    operations: BTreeMap<u64, (Operation, Op<T>)>,
    /// Collectives that are not complete, in the order in which they were started.
    collectives: Vec<u64>,
    started: u64,
    /// Epoch of the transport when the collectives were advanced last.
    advanced: Option<u64>,
}

/// An operation between its start and its wait.
pub(super) enum Op<T: Transport> {
    Send { sending: T::Sending, to: usize },
    Recv(Incoming<T>),
    Collective { machine: Box<dyn Machine<T>>, group: Rc<Group>, tag: u32 },
    Done(Data),
}

/// A receive and what it must bring.
pub(super) struct Incoming<T: Transport> {
    receiving: T::Receiving,
    from: Address,
    dtype: Dtype,
    len: usize,
}

impl<T: Transport> Incoming<T> {
    pub fn start(transport: &T, pool: &Pool, from: Address, dtype: Dtype, len: usize) -> Result<Self> {
        let buffer = if T::RECEIVES_INTO_BUFFERS { pool.take(dtype, len) } else { Data::empty(dtype) };
        Ok(Self { receiving: transport.start_recv(from, buffer, len)?, from, dtype, len })
    }

    pub fn poll(&mut self, transport: &T) -> Result<Option<Data>> {
        let Some(data) = transport.poll_recv(&mut self.receiving)? else { return Ok(None) };
        let what = || self.from.describe_recv();
        if data.dtype() != self.dtype {
            return Err(CommError::Dtype { what: what(), expected: self.dtype, got: data.dtype() });
        }
        if data.len() != self.len {
            return Err(CommError::Length { what: what(), expected: self.len, got: data.len().to_string() });
        }
        Ok(Some(data))
    }

    /// The sender's rank in the world.
    pub fn sender(&self) -> usize {
        self.from.global
    }
}

impl<T: Transport> Op<T> {
    /// Takes the result out when there is one; the operation is then spent.
    fn poll(&mut self, transport: &T, pool: &Pool) -> Result<Option<Data>> {
        match self {
            Op::Send { sending, .. } => transport.poll_send(sending),
            Op::Recv(incoming) => incoming.poll(transport),
            Op::Collective { machine, group, tag } => machine.advance(&Link { transport, pool, group, tag: *tag }),
            Op::Done(data) => Ok(Some(data.take())),
        }
    }

    /// Adds the ranks of the world that it waits for.
    fn missing(&self, ranks: &mut Vec<usize>) {
        match self {
            Op::Send { to, .. } => ranks.push(*to),
            Op::Recv(incoming) => ranks.push(incoming.sender()),
            Op::Collective { machine, .. } => machine.missing(ranks),
            Op::Done(_) => {}
        }
    }
}

impl<T: Transport> Core<T> {
    pub fn new(transport: T, slot: Arc<Slot>, pool: Arc<Pool>) -> Self {
        let table = Table { operations: BTreeMap::new(), collectives: Vec::new(), started: 0, advanced: None };
        Self { transport, pool, slot, table: RefCell::new(table), next_context: Cell::new(1) }
    }

    pub fn receive(&self, from: Address, dtype: Dtype, len: usize) -> Result<Incoming<T>> {
        Incoming::start(&self.transport, &self.pool, from, dtype, len)
    }

    /// Registers a started operation.
    pub fn insert(&self, operation: Operation, op: Op<T>) -> Request {
        self.slot.passed(operation);
        let mut table = self.table.borrow_mut();
        let number = table.started;
        table.started += 1;
        if let Op::Collective { .. } = op {
            table.collectives.push(number);
            table.advanced = None;
        }
        table.operations.insert(number, (operation, op));
        Request(number)
    }

    /// Advances everything outstanding without blocking.
    pub fn progress(&self) -> Result<()> {
        self.transport.poke()?;
        self.advance(self.transport.epoch())
    }

    /// Advances the collectives, unless nothing can have changed since the last time.
    fn advance(&self, epoch: u64) -> Result<()> {
        let mut table = self.table.borrow_mut();
        let Table { operations, collectives, advanced, .. } = &mut *table;
        if collectives.is_empty() || *advanced == Some(epoch) {
            return Ok(());
        }
        *advanced = Some(epoch);
        let mut error = None;
        collectives.retain(|number| {
            let Some((_, op)) = operations.get_mut(number) else { return false };
            match op.poll(&self.transport, &self.pool) {
                Ok(None) => true,
                Ok(Some(data)) => {
                    *op = Op::Done(data);
                    false
                }
                Err(e) => {
                    error.get_or_insert(e);
                    true
                }
            }
        });
        error.map_or(Ok(()), Err)
    }

    /// Whether an operation is complete.
    pub fn test(&self, request: &Request) -> Result<bool> {
        self.progress()?;
        let mut table = self.table.borrow_mut();
        let (_, op) = table.operations.get_mut(&request.0).ok_or(CommError::Request { got: request.0 })?;
        match op {
            Op::Done(_) => Ok(true),
            // Advanced by `progress` already.
            Op::Collective { .. } => Ok(false),
            _ => Ok(match op.poll(&self.transport, &self.pool)? {
                Some(data) => {
                    *op = Op::Done(data);
                    true
                }
                None => false,
            }),
        }
    }

    /// Blocks until an operation is complete.
    pub fn wait(&self, request: Request) -> Result<Data> {
        let number = request.0;
        let unknown = || CommError::Request { got: number };
        let operation = self.table.borrow().operations.get(&number).map(|(operation, _)| *operation);
        let _inside = self.slot.enter(operation.ok_or_else(unknown)?);
        let mut round = 0;
        loop {
            let epoch = self.transport.epoch();
            self.advance(epoch)?;
            let mut table = self.table.borrow_mut();
            let (_, op) = table.operations.get_mut(&number).ok_or_else(unknown)?;
            // A collective was advanced just now, and is `Done` if it is complete.
            let running = matches!(op, Op::Collective { .. });
            let result = if running { None } else { op.poll(&self.transport, &self.pool)? };
            if let Some(data) = result {
                table.operations.remove(&number);
                return Ok(data);
            }
            self.slot.missing(|ranks| op.missing(ranks));
            drop(table);
            self.transport.park(epoch, round)?;
            round = round.saturating_add(1);
        }
    }
}
