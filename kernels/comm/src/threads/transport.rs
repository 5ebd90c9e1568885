//! The transport between threads: one mailbox for each rank, and who has returned or failed.

use super::mailbox::{Mailbox, Ticket};
use crate::board::lock;
use crate::data::{Data, Dtype};
use crate::engine::Pool;
use crate::error::{CommError, Result};
use crate::pause::spin;
use crate::transport::{Address, Member, Transport};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What all ranks of a job share.
pub(super) struct World {
    mailboxes: Vec<Mailbox>,
    finished: Vec<AtomicBool>,
    /// Mirrors `failure.is_some()`, so that the common look costs no lock.
    failed: AtomicBool,
    failure: Mutex<Option<(usize, String)>>,
    buffers: Arc<Pool>,
    /// Whether each rank has a core of its own. It then looks for messages for a while before it sleeps: to be woken takes some
    /// ten microseconds, as long as many a small collective.
    roomy: bool,
}

impl World {
    pub fn new(ranks: usize) -> Self {
        Self {
            mailboxes: (0..ranks).map(|_| Mailbox::default()).collect(),
            finished: (0..ranks).map(|_| AtomicBool::new(false)).collect(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            buffers: Arc::new(Pool::new(ranks)),
            roomy: ranks <= std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    pub fn size(&self) -> usize {
        self.mailboxes.len()
    }

    /// The buffers of all ranks.
    pub fn buffers(&self) -> Arc<Pool> {
        self.buffers.clone()
    }

    /// The rank has returned: who waits for it need not go on.
    pub fn finish(&self, rank: usize) {
        self.finished[rank].store(true, Ordering::Release);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// The rank has failed: nobody need wait for anything. The first failure is kept.
    pub fn fail(&self, rank: usize, message: String) {
        lock(&self.failure).get_or_insert((rank, message));
        self.failed.store(true, Ordering::Release);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// The rank that failed first.
    pub fn first_failure(&self) -> Option<usize> {
        lock(&self.failure).as_ref().map(|(rank, _)| *rank)
    }

    fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = lock(&self.failure).clone();
        failure.map_or(Ok(()), |(rank, message)| Err(CommError::RankFailed { rank, message }))
    }
}

/// One rank's end.
pub(super) struct Threads {
    rank: usize,
    world: Arc<World>,
}

impl Threads {
    pub fn new(rank: usize, world: Arc<World>) -> Self {
        Self { rank, world }
    }

    fn mailbox(&self) -> &Mailbox {
        &self.world.mailboxes[self.rank]
    }
}

impl Transport for Threads {
    /// Delivered at once; the type is kept for the empty buffer that `wait` gives.
    type Sending = Dtype;
    type Receiving = (Ticket, Address);
    const RECEIVES_INTO_BUFFERS: bool = false;

    fn name(&self) -> &'static str {
        "threads"
    }

    fn start_send(&self, to: Address, data: Data) -> Result<Dtype> {
        let dtype = data.dtype();
        self.world.mailboxes[to.global].deliver((to.context, self.rank, to.tag), data);
        Ok(dtype)
    }

    fn start_recv(&self, from: Address, _: Data, _: usize) -> Result<(Ticket, Address)> {
        Ok((self.mailbox().expect((from.context, from.global, from.tag)), from))
    }

    fn poll_send(&self, sending: &mut Dtype) -> Result<Option<Data>> {
        Ok(Some(Data::empty(*sending)))
    }

    fn poll_recv(&self, (ticket, from): &mut (Ticket, Address)) -> Result<Option<Data>> {
        // Looked at before the mailbox: all that the sender sent lies there when it is set.
        let finished = self.world.finished[from.global].load(Ordering::Acquire);
        match self.mailbox().take(ticket) {
            None if finished => Err(CommError::RankFinished { what: from.describe_recv(), rank: from.global }),
            message => Ok(message),
        }
    }

    fn poke(&self) -> Result<()> {
        self.world.check()
    }

    fn epoch(&self) -> u64 {
        self.mailbox().epoch()
    }

    fn park(&self, epoch: u64, round: u32) -> Result<()> {
        // Failures change the epoch after they are set, so one of the two lines sees it.
        self.world.check()?;
        if !(self.world.roomy && spin(round)) {
            self.mailbox().sleep(epoch);
        }
        Ok(())
    }

    fn open(&self, _: u32, _: Option<Member>) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: u32) {}
}
