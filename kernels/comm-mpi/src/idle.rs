//! What a rank does while it waits for messages.

use std::thread;
use std::time::Duration;

/// MPI has to be asked for news, so a waiting rank polls, at first as fast as it can, then giving its core away between
/// two polls. Where there are more ranks than cores it gives it away from the start, and sleeps after a while, so that
/// ranks that compute are not slowed by those that wait.
pub struct Idle {
    oversubscribed: bool,
}

/// Polls before a rank of an oversubscribed node starts to sleep: about a millisecond.
const AWAKE_POLLS: u32 = 2000;

impl Idle {
    /// `local_ranks` is the number of ranks on this node.
    pub fn new(local_ranks: usize) -> Self {
        Self { oversubscribed: local_ranks > cores() }
    }

    pub fn pause(&self, round: u32) {
        match (self.oversubscribed, round) {
            (false, _) if shardmark_comm::spin(round) => {}
            (false, _) => thread::yield_now(),
            (true, ..AWAKE_POLLS) => thread::yield_now(),
            (true, _) => thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// Cores of the node, also when the launcher has bound this rank to one of them.
fn cores() -> usize {
    // SAFETY: no arguments to get wrong; a negative answer means unknown.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}
