//! The threads that share the work of one rank.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks for work before it sleeps: some tens of microseconds, longer than the gap between two layers.
const LOOKS: usize = 4000;

/// Threads of a team. No machine gains from more, and with tens of thousands a process runs out of mappings, where the
/// runtime panics in the new thread instead of refusing it.
pub const MOST_THREADS: usize = 1024;

/// Why there is no team.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// More threads than [`MOST_THREADS`].
    #[error("threads: expected at most {MOST_THREADS}, got {0}; ask for fewer")]
    TooMany(usize),
    /// The system refuses a thread.
    #[error("threads: expected {threads}, got {got} ({error}); ask for fewer or raise ulimit -u")]
    Refused {
        /// Threads that were asked for.
        threads: usize,
        /// Threads that there are.
        got: usize,
        /// What the system says.
        error: std::io::Error,
    },
}

/// The rank's own thread and its helpers. Sums are cut by sizes alone and each part of a job is done once, by whichever
/// thread is free, so that results do not depend on the number of threads.
pub struct Team {
    shared: Option<Arc<Shared>>,
    helpers: Vec<JoinHandle<()>>,
}

/// A job as helpers see it.
#[derive(Clone, Copy)]
struct Job {
    /// Valid until the job is closed and `active` is zero.
    work: *const (dyn Fn(usize, usize) + Sync),
    parts: usize,
}

// SAFETY: the closure is Sync, and `Team::run` keeps it alive while any helper can call it.
unsafe impl Send for Job {}

struct State {
    /// The open job; helpers may join it.
    job: Option<Job>,
    /// Whether a job is open or helpers are still inside it.
    busy: bool,
    asleep: usize,
    stop: bool,
    panic: Option<Box<dyn Any + Send>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Number of jobs so far; helpers watch it.
    jobs: AtomicUsize,
    /// Next part to be done.
    next: AtomicUsize,
    /// Helpers inside the job.
    active: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does parts until none is left.
    fn take_parts(&self, job: Job, thread: usize) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= job.parts {
                return;
            }
            // SAFETY: the job is open, or this helper is counted in `active`.
            unsafe { (*job.work)(thread, part) };
        }
    }

    fn help(&self, thread: usize) {
        let mut seen = 0;
        loop {
            let mut looks = 0;
            while self.jobs.load(Ordering::Acquire) == seen && looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            }
            let mut state = self.lock();
            while self.jobs.load(Ordering::Acquire) == seen && !state.stop {
                state.asleep += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.asleep -= 1;
            }
            if state.stop {
                return;
            }
            seen = self.jobs.load(Ordering::Acquire);
            let Some(job) = state.job else { continue };
            self.active.fetch_add(1, Ordering::Relaxed);
            drop(state);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_parts(job, thread))) {
                self.lock().panic.get_or_insert(panic);
            }
            self.active.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A team of the rank's own thread alone.
pub static SOLO: Team = Team::solo();

impl Team {
    /// The rank's own thread alone.
    pub const fn solo() -> Team {
        Team { shared: None, helpers: Vec::new() }
    }

    /// A team of `threads`, the caller among them.
    ///
    /// # Errors
    /// When they are too many, which is told before any is started, or the system refuses one.
    pub fn new(threads: usize) -> Result<Team, TeamError> {
        if threads > MOST_THREADS {
            return Err(TeamError::TooMany(threads));
        }
        if threads <= 1 {
            return Ok(Team::solo());
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State { job: None, busy: false, asleep: 0, stop: false, panic: None }),
            wake: Condvar::new(),
            jobs: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
        });
        let mut team = Team { shared: Some(shared.clone()), helpers: Vec::new() };
        // A helper bears the name of the thread that it helps: who speaks of that rank finds it by name.
        let name = std::thread::current().name().unwrap_or("helper").to_string();
        for thread in 1..threads {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(name.clone());
            let refused = |error| TeamError::Refused { threads, got: thread, error };
            team.helpers.push(builder.spawn(move || shared.help(thread)).map_err(refused)?);
        }
        Ok(team)
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `work(thread, part)` once for each of the parts `0..parts`, and returns when all are done. `thread` is below
    /// [`Team::threads`] and is the same in no two calls that run at once.
    ///
    /// # Panics
    /// When `work` does, after all other calls have returned. When a job is under way, be it this team's own caller's: parts
    /// are counted for one job at a time.
    pub fn run(&self, parts: usize, work: impl Fn(usize, usize) + Sync) {
        let Some(shared) = self.shared.as_ref().filter(|_| parts > 1) else {
            (0..parts).for_each(|part| work(0, part));
            return;
        };
        let work: &(dyn Fn(usize, usize) + Sync) = &work;
        // SAFETY: only the lifetime is dropped; the closure outlives its last call, see below.
        let work = unsafe {
            std::mem::transmute::<&(dyn Fn(usize, usize) + Sync), &'static (dyn Fn(usize, usize) + Sync)>(work)
        };
        let job = Job { work, parts };
        {
            let mut state = shared.lock();
            assert!(!state.busy, "a team runs one job at a time");
            state.busy = true;
            shared.next.store(0, Ordering::Relaxed);
            state.job = Some(job);
            shared.jobs.fetch_add(1, Ordering::Release);
            if state.asleep > 0 {
                shared.wake.notify_all();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| shared.take_parts(job, 0)));
        // Nobody joins a closed job, and those inside are waited for: then nothing refers to `work` any more.
        shared.lock().job = None;
        let mut looks = 0;
        while shared.active.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let theirs = {
            let mut state = shared.lock();
            state.busy = false;
            state.panic.take()
        };
        if let Some(panic) = own.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.lock().stop = true;
            shared.wake.notify_all();
        }
        for helper in self.helpers.drain(..) {
            // A helper's panic was handed to the caller of `run`.
            let _ = helper.join();
        }
    }
}

/// A buffer for each thread of a team, kept from job to job.
#[derive(Default)]
pub struct PerThread<S>(Vec<Mutex<S>>);

impl<S: Default> PerThread<S> {
    /// Makes sure that every thread of `team` has its buffer.
    pub fn fit(&mut self, team: &Team) {
        if self.0.len() < team.threads() {
            self.0.resize_with(team.threads(), Mutex::default);
        }
    }

    /// The buffer of a thread; nobody else asks for it while that thread works.
    ///
    /// # Panics
    /// If the team is larger than the one it was fitted to.
    pub fn of(&self, thread: usize) -> MutexGuard<'_, S> {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slice whose parts are written by several threads.
pub struct SharedMut<'a, T>(&'a [UnsafeCell<T>]);

// SAFETY: writing takes an unsafe call whose caller vouches that no two threads touch the same elements.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}

impl<T> Clone for SharedMut<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Shares a slice until the borrow ends.
    pub fn new(slice: &'a mut [T]) -> Self {
        let cells = std::ptr::from_mut(slice) as *const [UnsafeCell<T>];
        // SAFETY: an UnsafeCell is laid out as what it holds, and the borrow is exclusive.
        SharedMut(unsafe { &*cells })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Address of the first element.
    pub fn as_mut_ptr(&self) -> *mut T {
        UnsafeCell::raw_get(self.0.as_ptr())
    }

    /// A part of the slice.
    ///
    /// # Safety
    /// While the part is in use, nobody else touches its elements.
    ///
    /// # Panics
    /// If the range is not inside the slice.
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that it is exclusive")]
    pub unsafe fn part(&self, range: std::ops::Range<usize>) -> &'a mut [T] {
        let cells = &self.0[range];
        // SAFETY: inside the slice; exclusive by the contract of this function.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once_by_any_team() {
        for threads in 1..=4 {
            let team = Team::new(threads).expect("threads");
            assert_eq!(team.threads(), threads);
            for parts in [0, 1, 2, 3, 17, 1000] {
                let mut done = vec![0u32; parts];
                let shared = SharedMut::new(&mut done);
                team.run(parts, |thread, part| {
                    assert!(thread < threads);
                    // SAFETY: each part is given out once.
                    let own = unsafe { shared.part(part..part + 1) };
                    own[0] += 1;
                });
                assert_eq!(done, vec![1; parts], "{threads} threads");
            }
        }
    }

    #[test]
    fn a_team_has_a_limit() {
        for threads in [MOST_THREADS + 1, 1_000_000, usize::MAX] {
            let error = Team::new(threads).err().expect("too many").to_string();
            assert_eq!(error, format!("threads: expected at most {MOST_THREADS}, got {threads}; ask for fewer"));
        }
    }

    #[test]
    fn buffers_belong_to_one_thread_at_a_time() {
        let team = Team::new(3).expect("threads");
        let mut sums = PerThread::<usize>::default();
        sums.fit(&team);
        team.run(100, |thread, part| *sums.of(thread) += part);
        assert_eq!((0..3).map(|t| *sums.of(t)).sum::<usize>(), 4950);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_works_on() {
        let team = Team::new(3).expect("threads");
        for round in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| team.run(50, |_, part| assert!(part != 7, "part seven"))));
            assert!(caught.is_err(), "round {round}");
            let count = AtomicUsize::new(0);
            team.run(50, |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
            assert_eq!(count.into_inner(), 50);
        }
    }

    #[test]
    fn a_job_within_a_job_is_refused_and_the_team_works_on() {
        let team = Team::new(2).expect("threads");
        let nested = || {
            team.run(8, |_, part| {
                if part == 7 {
                    team.run(4, |_, _| ())
                }
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
        let count = AtomicUsize::new(0);
        team.run(50, |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
        assert_eq!(count.into_inner(), 50);
    }

    #[test]
    fn sleeping_helpers_wake() {
        let team = Team::new(2).expect("threads");
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let count = AtomicUsize::new(0);
            team.run(64, |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
            assert_eq!(count.into_inner(), 64);
        }
    }
}
