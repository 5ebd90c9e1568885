//! Starts the ranks of a case (or finds them, under MPI), watches them, and makes every failure end the whole job.

use crate::error::RankError;
use shardmark_comm::{AgreeError, Board, Comm, HangReport, Watchdog, threads};
use shardmark_plan::exit::RankExit;
use shardmark_plan::machine;
use shardmark_plan::value::{Setting, Transport};
use shardmark_plan::{Event, process};
use std::sync::{Mutex, Once};
use std::time::Duration;

/// The hang limit never falls below this, unless the case sets it, s.
const HANG_LIMIT_S: f64 = 60.0;
/// A rank may wait this many times the slowest finished step.
const SLOWEST_STEPS: f64 = 10.0;
/// A rank may wait so long in the start of MPI, whatever the case sets: where many processes start on few cores it takes
/// seconds, s.
#[cfg(feature = "mpi")]
const START_S: f64 = 10.0;

/// The hang limit, which follows the finished steps unless the case sets it.
pub struct Watch {
    dog: Watchdog,
    given: Option<f64>,
    slowest_s: Mutex<f64>,
}

impl Watch {
    fn start(board: &Board, given: Option<f64>) -> Result<Watch, RankError> {
        let limit = Duration::from_secs_f64(given.unwrap_or(HANG_LIMIT_S));
        let dog = Watchdog::start(board, limit, report_hang).map_err(|error| {
            RankError::Other(format!("watchdog: expected a thread, got '{error}'; raise ulimit -u"))
        })?;
        Ok(Watch { dog, given, slowest_s: Mutex::new(0.0) })
    }

    /// Tells that a step took `seconds` on some rank.
    pub fn finished_step(&self, seconds: f64) {
        let mut slowest = self.slowest_s.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if seconds > *slowest {
            *slowest = seconds;
            self.allow(SLOWEST_STEPS * seconds);
        }
    }

    /// Lets ranks wait for `seconds` if the case has no limit of its own: one rank is about to work alone.
    pub fn allow(&self, seconds: f64) {
        if self.given.is_none() {
            self.dog.set_limit(Duration::from_secs_f64(seconds.max(HANG_LIMIT_S)));
        }
    }
}

/// What the code of one rank gets.
#[derive(Clone, Copy)]
pub struct Rank<'a> {
    /// The communicator of all ranks.
    pub comm: &'a dyn Comm,
    /// The watchdog.
    pub watch: &'a Watch,
    /// Name and version of the MPI library, under MPI.
    pub mpi: Option<&'a str>,
}

/// Runs on the watchdog's thread; the process ends here, and with it the job.
fn report_hang(report: HangReport) {
    eprintln!("{report}");
    let seconds = report.waited.as_secs_f64();
    Event::Hang { rank: report.rank, operation: report.operation.to_string(), peers: report.peers, seconds }.emit();
    abort(RankExit::Hang);
}

/// Ends this process and, under MPI, the job.
pub fn abort(exit: RankExit) -> ! {
    #[cfg(feature = "mpi")]
    shardmark_comm_mpi::abort(exit as i32);
    #[cfg(not(feature = "mpi"))]
    std::process::exit(exit as i32)
}

/// A panic ends the process at once: other ranks may be deep in a kernel and would notice late.
fn report_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        previous(info);
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        failed(this_rank(), format!("panicked: {message}{place}"));
        abort(RankExit::Failed);
    }));
}

/// The rank of this thread or process.
fn this_rank() -> usize {
    let thread = std::thread::current();
    let named = thread.name().and_then(|n| n.strip_prefix("rank ")).and_then(|n| n.parse().ok());
    named.or_else(launched_rank).unwrap_or(0)
}

/// The rank that the launcher has given this process, if there is one.
fn launched_rank() -> Option<usize> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn failed(rank: usize, message: String) {
    eprintln!("rank {rank}: {message}");
    Event::Failed { rank, message }.emit();
}

/// Reports why this process does not even start as a rank.
pub fn refuse(message: String) -> RankExit {
    failed(this_rank(), message);
    RankExit::Usage
}

/// Runs `body` on `ranks` ranks and gives what rank 0 returned (under MPI: what this process returned). A rank that
/// fails has been reported, and under MPI has ended the job, when this returns.
///
/// # Errors
/// The exit code that the process should end with.
pub fn run<R: Send>(
    transport: Transport,
    ranks: usize,
    hang_limit: Setting<f64>,
    body: impl Fn(Rank<'_>) -> Result<R, RankError> + Sync,
) -> Result<R, RankExit> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        process::die_with_parent();
        report_panics();
    });
    match transport {
        Transport::Threads => on_threads(ranks, hang_limit, body),
        Transport::Mpi => on_mpi(ranks, hang_limit, body),
    }
}

fn started(rank: usize) {
    Event::Started { rank, pid: std::process::id(), host: machine::host() }.emit();
}

fn on_threads<R: Send>(
    ranks: usize,
    hang_limit: Setting<f64>,
    body: impl Fn(Rank<'_>) -> Result<R, RankError> + Sync,
) -> Result<R, RankExit> {
    started(0);
    let options = threads::Options::default();
    let watch = Watch::start(&options.board, hang_limit.given()).map_err(|error| give_up(0, &error))?;
    match threads::run(ranks, &options, |comm| body(Rank { comm, watch: &watch, mpi: None })) {
        Ok(values) => values.into_iter().next().ok_or(RankExit::Usage),
        Err(threads::RunError::Returned { rank, error }) => Err(give_up(rank, &error)),
        Err(error) => Err(give_up(0, &RankError::Other(error.to_string()))),
    }
}

/// Reports an error of a rank and chooses the exit code.
fn give_up(rank: usize, error: &RankError) -> RankExit {
    let (rank, message) = match error {
        RankError::Agree(AgreeError::Failed { rank, message }) => (*rank, message.clone()),
        other => (rank, other.to_string()),
    };
    failed(rank, message);
    if matches!(error, RankError::WontFit(_)) { RankExit::WontFit } else { RankExit::Failed }
}

#[cfg(feature = "mpi")]
fn on_mpi<R: Send>(
    ranks: usize,
    hang_limit: Setting<f64>,
    body: impl Fn(Rank<'_>) -> Result<R, RankError> + Sync,
) -> Result<R, RankExit> {
    let options = shardmark_comm_mpi::Options { rank: launched_rank(), ..Default::default() };
    // Before the world, so that it is dropped after it: the start and the end of MPI wait for other ranks.
    let watch = Watch::start(&options.board, hang_limit.given()).map_err(|error| give_up(this_rank(), &error))?;
    watch.dog.set_limit(Duration::from_secs_f64(hang_limit.given().unwrap_or(HANG_LIMIT_S).max(START_S)));
    let world = shardmark_comm_mpi::world(&options).map_err(|error| give_up(this_rank(), &error.into()))?;
    watch.dog.set_limit(Duration::from_secs_f64(hang_limit.given().unwrap_or(HANG_LIMIT_S)));
    let rank = world.comm.rank();
    started(rank);
    if world.comm.size() != ranks {
        let (got, text) = (world.comm.size(), "start as many MPI processes as the grid has ranks");
        failed(rank, format!("ranks: expected {ranks}, got {got} in the MPI world; {text}"));
        return Err(RankExit::Usage);
    }
    match body(Rank { comm: &*world.comm, watch: &watch, mpi: Some(&world.library) }) {
        Ok(value) => Ok(value),
        // All ranks stop here together; the failing one speaks.
        Err(RankError::Agree(AgreeError::Failed { rank: failing, message })) => {
            if failing == rank {
                failed(rank, message);
            }
            Err(RankExit::Failed)
        }
        Err(error) => abort(give_up(rank, &error)),
    }
}

#[cfg(not(feature = "mpi"))]
fn on_mpi<R: Send>(
    _ranks: usize,
    _hang_limit: Setting<f64>,
    _body: impl Fn(Rank<'_>) -> Result<R, RankError> + Sync,
) -> Result<R, RankExit> {
    let text = "transport: expected a build with MPI, got one without; build with the feature `mpi` or use threads";
    Err(give_up(0, &RankError::Other(text.into())))
}
