//! The communicator over MPI.
//!
//! [`world`] initialises MPI (funneled: only the calling thread talks) and gives the communicator of all ranks. MPI carries
//! point-to-point messages only; collectives, agreement and splitting come from `shardmark-comm`, so results are equal
//! to the bit on threads and MPI.
//!
//! A rank that panics ends the whole job. A program that fails otherwise calls [`abort`]: a rank that just returns blocks in
//! `MPI_Finalize` while others wait for it.

mod call;
mod idle;
mod transfer;
mod transport;

use call::check;
use mpi::Threading;
use mpi::ffi;
use shardmark_comm::{Board, Comm, CommError, Engine, KEYS, Result};
use std::os::raw::{c_int, c_void};
use std::time::Duration;
use transport::{INIT, Mpi, place};

/// Settings of a job.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where this rank shows what it is doing, for a [`shardmark_comm::Watchdog`].
    pub board: Board,
    /// This rank, if its launcher has told it: then the start of MPI is on the board too.
    pub rank: Option<usize>,
    /// The most elements that one MPI message carries; longer payloads are sent in parts. Equal on all ranks.
    pub part: usize,
}

impl Default for Options {
    fn default() -> Self {
        // MPI counts elements in an int; 2^30 is the largest power of two that fits.
        Self { board: Board::new(), rank: None, part: 1 << 30 }
    }
}

/// All ranks of the job, and what to record about the library.
pub struct MpiWorld {
    /// The communicator. MPI is finalised when it and all that were split from it are dropped.
    pub comm: Box<dyn Comm>,
    /// Name and version of the library, such as `Open MPI v4.1.4`.
    pub library: String,
    /// Version of the standard that it follows, such as `3.1`.
    pub standard: String,
    /// The thread level that it grants.
    pub threading: String,
    /// The node's name as the library gives it.
    pub node: String,
}

/// Initialises MPI and makes every later panic of this process end the whole job.
///
/// Fails when MPI was initialised before, grants less than funneled threads, or has too few tags. Without a launcher the
/// world has one rank.
pub fn world(options: &Options) -> Result<MpiWorld> {
    let setup = |message: String| CommError::Transport { what: "MPI".into(), message };
    let start = options.rank.map(|rank| options.board.join(rank));
    let starting = start.as_ref().map(|slot| slot.enter(INIT));
    let (universe, level) = mpi::initialize_with_threading(Threading::Funneled)
        .ok_or_else(|| setup("expected to initialise it, got an initialised one; call world once".into()))?;
    install_abort_hook();
    if level < Threading::Funneled {
        return Err(setup(format!("expected thread level Funneled, got {level:?}; use another MPI build")));
    }
    let needed = 2 * KEYS as c_int - 1;
    let tags = largest_tag()?;
    if tags < needed {
        return Err(setup(format!("expected tags up to {needed}, got {tags}; use another fabric or MPI build")));
    }
    // Library strings go on after the first comma or line with build details.
    let library = mpi::environment::library_version().unwrap_or_default();
    let library = library.split([',', '\n']).next().unwrap_or_default().trim().to_string();
    let node = mpi::environment::processor_name().unwrap_or_default();
    let (major, minor) = mpi::environment::version();

    let (rank, size) = place()?;
    let slot = match &start {
        Some(slot) if options.rank == Some(rank) => slot.clone(),
        _ => options.board.join(rank),
    };
    let transport = Mpi::new(universe, options.part, slot.clone())?;
    drop(starting);
    // The launcher's number was of another kind.
    start.iter().filter(|_| options.rank != Some(rank)).for_each(|slot| slot.finish());
    Ok(MpiWorld {
        comm: Box::new(Engine::world(transport, rank, size, slot)),
        library,
        standard: format!("{major}.{minor}"),
        threading: format!("{level:?}"),
        node,
    })
}

/// Ends all ranks of the job, from any thread; the launcher returns `code` or another one that is not zero.
pub fn abort(code: i32) -> ! {
    // The library, or a handler of the exit, may wait for a lock that the rank's own thread holds (in the middle of
    // starting or finalising MPI above all): then leaving without a word ends the job.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(ABORT_PATIENCE);
        // SAFETY: ends the process at once, without handlers that could wait for the same lock.
        unsafe { libc::_exit(code) }
    });
    if mpi::is_initialized() && !mpi::is_finalized() {
        // SAFETY: MPI is running. Called from another thread than the main one it goes beyond the funneled level, but
        // the job is lost anyway, and what follows ends this process in any case.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    }
    std::process::exit(code)
}

/// How long [`abort`] waits for the library.
const ABORT_PATIENCE: Duration = Duration::from_secs(2);

/// Without this, a rank that panics unwinds into `MPI_Finalize` and the job hangs for ever.
fn install_abort_hook() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        previous(info);
        if mpi::is_initialized() && !mpi::is_finalized() {
            // SAFETY: MPI is running, and this process ends below even if the library refuses.
            unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, PANICKED) };
        }
        std::process::abort();
    }));
}

/// Exit code of a rank that panicked, as without MPI.
const PANICKED: c_int = 101;

/// The attribute `MPI_TAG_UB`.
fn largest_tag() -> Result<c_int> {
    let mut value: *const c_int = std::ptr::null();
    let mut found = 0;
    // SAFETY: the attribute's value is a pointer to an int that lives as long as the library; it is written to `value`.
    unsafe {
        let target = (&raw mut value).cast::<c_void>();
        check(
            "MPI_Comm_get_attr",
            ffi::MPI_Comm_get_attr(ffi::RSMPI_COMM_WORLD, ffi::MPI_TAG_UB as c_int, target, &mut found),
        )?;
        // The standard guarantees 32767.
        Ok(if found != 0 && !value.is_null() { *value } else { 32_767 })
    }
}
