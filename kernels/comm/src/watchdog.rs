//! A thread that finds calls which do not return.

use crate::board::{Board, Doing, Operation, RankState, lock};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A call that took longer than the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangReport {
    /// The rank (of the world) that waits longest.
    pub rank: usize,
    /// The call it waits in.
    pub operation: Operation,
    /// The ranks it waits for.
    pub peers: Vec<usize>,
    /// How long it has waited.
    pub waited: Duration,
    /// What every rank of this process is doing.
    pub ranks: Vec<RankState>,
}

impl fmt::Display for HangReport {
    /// One line for the rank that waits longest, then one line for every other rank of this process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worst, others): (Vec<_>, Vec<_>) = self.ranks.iter().partition(|r| r.rank == self.rank);
        let lines: Vec<String> = worst.into_iter().chain(others).map(RankState::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Watches a [`Board`] until dropped.
///
/// The handler is called at most once, on the watchdog's thread, as soon as a rank has been blocked in one call for
/// longer than the limit. It has to end the job: report, then exit the process with its own exit code (which makes an
/// MPI launcher end the other ranks too).
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<(Mutex<Settings>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Settings {
    limit: Duration,
    stop: bool,
}

impl Watchdog {
    /// Starts watching. Fails when no thread can be started.
    pub fn start(
        board: &Board,
        limit: Duration,
        handler: impl FnOnce(HangReport) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new((Mutex::new(Settings { limit, stop: false }), Condvar::new()));
        let (board, theirs) = (board.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
            if let Some(report) = watch(&board, &theirs) {
                handler(report);
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Changes the limit, also for calls that wait already.
    pub fn set_limit(&self, limit: Duration) {
        lock(&self.shared.0).limit = limit;
        self.shared.1.notify_all();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        lock(&self.shared.0).stop = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A handler that panicked has printed its message; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// Blocks until a call takes longer than the limit, or the watchdog is stopped.
fn watch(board: &Board, shared: &(Mutex<Settings>, Condvar)) -> Option<HangReport> {
    let mut pace = Pace::start(Instant::now());
    let mut settings = lock(&shared.0);
    while !settings.stop {
        let limit = settings.limit;
        pace.look(Instant::now(), limit);
        if let Some(report) = find(board, limit, &pace) {
            return Some(report);
        }
        // Often enough to be late by an eighth of the limit at most.
        let pause = (limit / 8).clamp(Duration::from_millis(1), Duration::from_millis(500));
        settings = shared.1.wait_timeout(settings, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    None
}

/// Whether this process runs. One that was stopped (`SIGSTOP`, a debugger, a frozen machine) and goes on finds long waits
/// that are its own fault: they count from then on.
struct Pace {
    looked: Instant,
    woken: Option<Instant>,
}

/// No thread is late by so much because others run.
const STOPPED: Duration = Duration::from_secs(1);

impl Pace {
    fn start(now: Instant) -> Self {
        Self { looked: now, woken: None }
    }

    /// The watchdog looks, which it does several times within the limit.
    fn look(&mut self, now: Instant, limit: Duration) {
        if now - self.looked > STOPPED.max(limit / 2) {
            self.woken = Some(now);
        }
        self.looked = now;
    }

    /// How much of a wait counts.
    fn counts(&self, time: Duration) -> Duration {
        self.woken.map_or(time, |woken| time.min(self.looked - woken))
    }
}

fn find(board: &Board, limit: Duration, pace: &Pace) -> Option<HangReport> {
    let ranks = board.ranks();
    let waits = |r: &RankState| matches!(r.doing, Doing::Waiting { .. }) && pace.counts(r.time) > limit;
    let worst = ranks.iter().filter(|r| waits(r)).max_by_key(|r| r.time)?.clone();
    let Doing::Waiting { operation, missing } = worst.doing else { return None };
    // A rank that was preempted before it could list what is missing still has its peer.
    let peers = if missing.is_empty() { operation.peer.into_iter().collect() } else { missing };
    Some(HangReport { rank: worst.rank, operation, peers, waited: worst.time, ranks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stopped_process_missed_does_not_count() {
        let limit = Duration::from_secs(4);
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut pace = Pace::start(start);
        pace.look(after(2), limit);
        assert_eq!(pace.counts(Duration::from_secs(9)), Duration::from_secs(9));
        // It sleeps for half a second at most, so it was stopped.
        pace.look(after(5), limit);
        assert_eq!(pace.counts(Duration::from_secs(9)), Duration::ZERO);
        pace.look(after(6), limit);
        assert_eq!(pace.counts(Duration::from_secs(9)), Duration::from_secs(1));
        assert_eq!(pace.counts(Duration::from_millis(1)), Duration::from_millis(1));
    }

    #[test]
    fn a_process_that_was_stopped_gives_its_ranks_the_limit_anew() {
        let board = Board::new();
        let slot = board.join(3);
        let _inside = slot.enter(Operation { name: "MPI_Init", peer: None, key: None });
        std::thread::sleep(Duration::from_millis(5));
        let limit = Duration::from_millis(1);
        let mut pace = Pace::start(Instant::now());
        let hang = find(&board, limit, &pace).expect("a hang");
        assert!(hang.to_string().starts_with("rank 3 waits in MPI_Init for 0.0"), "{hang}");
        assert!(!hang.to_string().contains("missing"), "{hang}");
        pace.look(Instant::now() + 2 * STOPPED, limit);
        assert_eq!(find(&board, limit, &pace), None);
    }
}
