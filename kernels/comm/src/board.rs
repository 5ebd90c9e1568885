//! What every rank of this process is doing, for the watchdog.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shared table. Clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Vec<Arc<Slot>>>>);

/// One call of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// `send`, `recv`, the name of a collective, or that of a library's call.
    pub name: &'static str,
    /// The peer (rank in the world) of a send or receive.
    pub peer: Option<usize>,
    /// Key of a send or receive; of a collective, its number on its communicator, counted from 0. A library's call has
    /// none.
    pub key: Option<u32>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(peer) = self.peer {
            write!(f, " {} rank {peer}", if self.name == "send" { "to" } else { "from" })?;
        }
        match self.key {
            Some(key) => write!(f, " ({} {key})", if self.peer.is_some() { "key" } else { "collective" }),
            None => Ok(()),
        }
    }
}

/// What a rank is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// It is blocked in a call.
    Waiting {
        /// The call.
        operation: Operation,
        /// The ranks (of the world) whose messages are missing.
        missing: Vec<usize>,
    },
    /// It is in no call.
    Computing {
        /// The call it was in last.
        last: Option<Operation>,
    },
    /// It has returned.
    Finished,
}

/// What a rank is doing, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankState {
    /// Rank in the world.
    pub rank: usize,
    /// What it is doing.
    pub doing: Doing,
    /// For how long.
    pub time: Duration,
}

impl fmt::Display for RankState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Seconds(self.time);
        match &self.doing {
            Doing::Waiting { operation, missing } => {
                write!(f, "rank {} waits in {operation} for {time}", self.rank)?;
                // A send or receive names its peer already; a rank that is not polling yet knows of none.
                if operation.peer.is_none() && !missing.is_empty() {
                    write!(f, ", missing {}", RankList(missing))
                } else {
                    Ok(())
                }
            }
            Doing::Computing { last: Some(last) } => {
                write!(f, "rank {} is computing for {time} (last operation: {last})", self.rank)
            }
            Doing::Computing { last: None } => write!(f, "rank {} is computing for {time}", self.rank),
            Doing::Finished => write!(f, "rank {} has finished", self.rank),
        }
    }
}

/// Seconds with a precision that suits a limit of milliseconds as well as one of minutes.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1.0 { write!(f, "{seconds:.3} s") } else { write!(f, "{seconds:.1} s") }
    }
}

/// A list of ranks that stays readable when there are many.
struct RankList<'a>(&'a [usize]);

impl fmt::Display for RankList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(usize::to_string).collect();
        write!(f, "{} {}", if self.0.len() == 1 { "rank" } else { "ranks" }, shown.join(", "))?;
        if self.0.len() > SHOWN { write!(f, " and {} more", self.0.len() - SHOWN) } else { Ok(()) }
    }
}

impl Board {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line for `rank`, which counts as computing until it says otherwise. It replaces the line of an earlier
    /// job's rank that has finished.
    pub fn join(&self, rank: usize) -> Arc<Slot> {
        let state = State { since: Instant::now(), current: None, last: None, missing: Vec::new(), finished: false };
        let slot = Arc::new(Slot { rank, state: Mutex::new(state) });
        let mut slots = lock(&self.0);
        slots.retain(|old| old.rank != rank || !lock(&old.state).finished);
        slots.push(slot.clone());
        slot
    }

    /// The table as of now, by rank.
    pub fn ranks(&self) -> Vec<RankState> {
        let mut ranks: Vec<RankState> = lock(&self.0).iter().map(|slot| slot.read()).collect();
        ranks.sort_by_key(|r| r.rank);
        ranks
    }
}

/// One rank's line of a [`Board`].
#[derive(Debug)]
pub struct Slot {
    rank: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    current: Option<Operation>,
    last: Option<Operation>,
    missing: Vec<usize>,
    finished: bool,
}

/// The rank is in a call until this is dropped.
#[derive(Debug)]
pub struct Inside<'a>(&'a Slot);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.last = state.current.take();
        state.since = Instant::now();
    }
}

impl Slot {
    /// The rank enters a blocking call; a call inside of another one ends both on the board.
    pub fn enter(&self, operation: Operation) -> Inside<'_> {
        let mut state = lock(&self.state);
        state.current = Some(operation);
        state.since = Instant::now();
        state.missing.clear();
        Inside(self)
    }

    /// The rank has made a call that does not block.
    pub(crate) fn passed(&self, operation: Operation) {
        let mut state = lock(&self.state);
        state.last = Some(operation);
        state.since = Instant::now();
    }

    /// The rank is about to block; `fill` lists the ranks (of the world) whose messages are missing.
    pub fn missing(&self, fill: impl FnOnce(&mut Vec<usize>)) {
        let missing = &mut lock(&self.state).missing;
        missing.clear();
        fill(missing);
    }

    /// The rank has returned.
    pub fn finish(&self) {
        lock(&self.state).finished = true;
    }

    fn read(&self) -> RankState {
        let state = lock(&self.state);
        let doing = match state.current {
            _ if state.finished => Doing::Finished,
            Some(operation) => Doing::Waiting { operation, missing: state.missing.clone() },
            None => Doing::Computing { last: state.last },
        };
        RankState { rank: self.rank, doing, time: state.since.elapsed() }
    }
}

/// A lock whose holder may have panicked: the plain values behind it are valid at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
