//! MPI as a transport: point-to-point messages on one MPI communicator for each of ours.

use crate::call::check;
use crate::idle::Idle;
use crate::transfer::Transfer;
use mpi::environment::Universe;
use mpi::ffi::{self, MPI_Comm};
use shardmark_comm::{Address, CommError, Data, Member, Operation, Result, Slot, Transport};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::raw::c_int;
use std::sync::Arc;

/// The start of MPI, of which the first communicator is a part.
pub const INIT: Operation = Operation { name: "MPI_Init", peer: None, key: None };

/// The end of MPI.
const FINALIZE: Operation = Operation { name: "MPI_Finalize", peer: None, key: None };

/// One rank's end.
pub struct Mpi {
    /// MPI's communicator for each context; 0 is a duplicate of the world's.
    contexts: RefCell<BTreeMap<u32, MPI_Comm>>,
    part: usize,
    epoch: Cell<u64>,
    idle: Idle,
    /// This rank's line of the board.
    slot: Arc<Slot>,
    /// Finalises MPI when dropped, after the communicators (see `drop`).
    universe: Option<Universe>,
}

impl Mpi {
    /// Duplicates the world's communicator, so that no other library's messages can meet ours. Collective.
    pub fn new(universe: Universe, part: usize, slot: Arc<Slot>) -> Result<Self> {
        // SAFETY: MPI is initialised; errors are to come back as codes from here on.
        let world = unsafe {
            let mut world = ffi::RSMPI_COMM_NULL;
            check("MPI_Comm_dup", ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &mut world))?;
            check("MPI_Comm_set_errhandler", ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN))?;
            world
        };
        let idle = Idle::new(local_ranks(world)?);
        let contexts = RefCell::new(BTreeMap::from([(0, world)]));
        Ok(Self { contexts, part: part.clamp(1, 1 << 30), epoch: Cell::new(0), idle, slot, universe: Some(universe) })
    }

    fn context(&self, context: u32) -> Result<MPI_Comm> {
        self.contexts.borrow().get(&context).copied().ok_or_else(|| CommError::Transport {
            what: "MPI".into(),
            message: format!("expected an open communicator, got number {context}; drop requests before communicators"),
        })
    }
}

/// Rank and number of ranks in the world.
pub fn place() -> Result<(usize, usize)> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: MPI is initialised; each writes one int.
    unsafe {
        check("MPI_Comm_rank", ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank))?;
        check("MPI_Comm_size", ffi::MPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut size))?;
    }
    Ok((rank as usize, size as usize))
}

/// How many ranks of the job share this node's memory.
fn local_ranks(world: MPI_Comm) -> Result<usize> {
    let mut size = 0;
    // SAFETY: collective on a communicator that all ranks have; the node's communicator is freed again.
    unsafe {
        let mut node = ffi::RSMPI_COMM_NULL;
        let shared = ffi::RSMPI_COMM_TYPE_SHARED;
        check("MPI_Comm_split_type", ffi::MPI_Comm_split_type(world, shared, 0, ffi::RSMPI_INFO_NULL, &mut node))?;
        check("MPI_Comm_size", ffi::MPI_Comm_size(node, &mut size))?;
        check("MPI_Comm_free", ffi::MPI_Comm_free(&mut node))?;
    }
    Ok(size as usize)
}

impl Transport for Mpi {
    type Sending = Transfer;
    type Receiving = Transfer;
    const RECEIVES_INTO_BUFFERS: bool = true;

    fn name(&self) -> &'static str {
        "mpi"
    }

    fn start_send(&self, to: Address, data: Data) -> Result<Transfer> {
        Transfer::send(self.context(to.context)?, to, data, self.part)
    }

    fn start_recv(&self, from: Address, buffer: Data, len: usize) -> Result<Transfer> {
        Transfer::receive(self.context(from.context)?, from, buffer, len, self.part)
    }

    fn poll_send(&self, sending: &mut Transfer) -> Result<Option<Data>> {
        sending.poll()
    }

    fn poll_recv(&self, receiving: &mut Transfer) -> Result<Option<Data>> {
        receiving.poll()
    }

    /// Any call that looks for messages makes the library move all of them.
    fn poke(&self) -> Result<()> {
        let mut found = 0;
        // SAFETY: looks at the queue of incoming messages only.
        let code = unsafe {
            ffi::MPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.context(0)?,
                &mut found,
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
        check("MPI_Iprobe", code)
    }

    /// The library does not tell when something arrives, so every moment may bring news.
    fn epoch(&self) -> u64 {
        self.epoch.set(self.epoch.get() + 1);
        self.epoch.get()
    }

    fn park(&self, _: u64, round: u32) -> Result<()> {
        self.idle.pause(round);
        Ok(())
    }

    fn open(&self, parent: u32, member: Option<Member>) -> Result<()> {
        let (color, key) = match member {
            // SAFETY: a constant of the library.
            None => (unsafe { ffi::RSMPI_UNDEFINED }, 0),
            Some(member) => (member.color as c_int, member.rank as c_int),
        };
        // SAFETY: collective on the parent, entered by all its ranks at this point.
        let part = unsafe {
            let mut part = ffi::RSMPI_COMM_NULL;
            check("MPI_Comm_split", ffi::MPI_Comm_split(self.context(parent)?, color, key, &mut part))?;
            part
        };
        if let Some(member) = member {
            // SAFETY: `part` was made above.
            let code = unsafe { ffi::MPI_Comm_set_errhandler(part, ffi::RSMPI_ERRORS_RETURN) };
            check("MPI_Comm_set_errhandler", code)?;
            self.contexts.borrow_mut().insert(member.context, part);
        }
        Ok(())
    }

    fn close(&self, context: u32) {
        if let Some(comm) = self.contexts.borrow_mut().remove(&context) {
            free(comm);
        }
    }
}

/// MPI lets running messages of a freed communicator finish.
fn free(mut comm: MPI_Comm) {
    // SAFETY: made by us, and removed from the table. There is nothing to be done about an error.
    unsafe { ffi::MPI_Comm_free(&mut comm) };
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let _inside = self.slot.enter(FINALIZE);
        // Last made, first freed: the same order on all ranks, since freeing is collective by the standard.
        while let Some((_, comm)) = self.contexts.borrow_mut().pop_last() {
            free(comm);
        }
        self.universe = None;
    }
}
