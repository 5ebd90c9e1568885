//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Scaling benchmarks of partitioned deep-learning training: run sweeps, check them, tabulate and draw them.
#[derive(Parser)]
#[command(name = "shardmark", version, max_term_width = 110, after_help = AFTER)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Exit codes: 0 ok; 1 a check or case failed; 2 usage; 4 the sweep is incomplete; 124 a case took longer than its timeout;
130 interrupted (finish with `shardmark resume`).

Settings: a flag wins over the environment (SHARDMARK_WIDTH=32), that over the suite file, that over the default.
Start with: shardmark run smoke";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// List the suites, the cases of one, or the keys of a case
    List(List),
    /// Run a suite (or one case line), each case in its own process; cases that have a result are not repeated
    Run(Run),
    /// Finish a sweep that was interrupted
    Resume(Resume),
    /// Show how far a sweep is
    Status(Status),
    /// Compare partitioned training with serial training on many grids
    Check(Check),
    /// Compare a network with the weights, outputs, gradients and updates stored in a reference file
    Verify(Verify),
    /// Describe this machine and warn about what would spoil measurements
    Env,
}

/// `list`.
#[derive(Args)]
pub struct List {
    /// A suite: a name as listed, or a TOML file; without it, the suites are listed
    pub suite: Option<String>,
    /// List the keys of cases and suites with their values and defaults
    #[arg(long, conflicts_with = "suite")]
    pub keys: bool,
    #[command(flatten)]
    pub select: Select,
}

/// Changes to a suite, and which of its cases are wanted.
#[derive(Args, Default)]
pub struct Select {
    /// Set a key, with commas to a list: -S width=64 -S norm=none,global
    #[arg(short = 'S', value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Keep only cases with one of these values: --where ranks=1,2
    #[arg(long = "where", value_name = "KEY=VALUE[,VALUE]")]
    pub only: Vec<String>,
    /// Rank counts: --ranks 1,2,4 (as -S ranks=)
    #[arg(long, value_name = "LIST")]
    pub ranks: Option<String>,
    /// threads: ranks are threads of one process; mpi: processes started by the launcher
    #[arg(long, value_name = "threads|mpi")]
    pub transport: Option<String>,
    /// Repeats of the timed steps
    #[arg(long, value_name = "N")]
    pub repeat: Option<String>,
    /// Steps before the timed ones
    #[arg(long, value_name = "N")]
    pub warmup: Option<String>,
}

/// `run`.
#[derive(Args)]
pub struct Run {
    /// A suite: a name as listed by `shardmark list`, a TOML file, or one case line in quotes
    pub suite: String,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub start: Start,
    /// Folder of the results [default: results/runs/SUITE]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Print the cases and the memory they need, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Forget the results of these cases and measure them again
    #[arg(long)]
    pub fresh: bool,
}

/// How cases are started; for `run` and `resume`.
#[derive(Args)]
pub struct Start {
    /// Command that starts MPI ranks [default: mpirun -n {ranks}; also SHARDMARK_LAUNCHER]
    #[arg(long, value_name = "TEMPLATE")]
    pub launcher: Option<String>,
    /// Run cases again that failed
    #[arg(long)]
    pub retry: bool,
    /// Add to results of another commit, compiler or machine
    #[arg(long)]
    pub mix: bool,
}

/// `resume`.
#[derive(Args)]
pub struct Resume {
    /// Folder of the results, or the name of the suite
    pub results: String,
    #[command(flatten)]
    pub start: Start,
}

/// `status`.
#[derive(Args)]
pub struct Status {
    /// Folder of the results, or the name of the suite
    pub results: String,
}

/// `check`.
#[derive(Args)]
pub struct Check {
    /// Rank counts; every grid of each is checked
    #[arg(long, value_name = "LIST", default_value = "1,2,3,4,6,8")]
    pub ranks: String,
    /// threads, or mpi (each rank count under the launcher)
    #[arg(long, value_name = "threads|mpi", default_value = "threads")]
    pub transport: String,
    /// Command that starts MPI ranks [default: mpirun -n {ranks}; also SHARDMARK_LAUNCHER]
    #[arg(long, value_name = "TEMPLATE")]
    pub launcher: Option<String>,
    /// Further options of the check, after `--`: see `shardmark-rank check --help`
    #[arg(last = true)]
    pub more: Vec<String>,
}

/// `verify`.
#[derive(Args)]
pub struct Verify {
    /// The reference file (HDF5)
    pub file: PathBuf,
    /// Process grid, parts along sample, depth, height, width
    #[arg(long, value_name = "NxDxHxW", default_value = "1x1x1x1")]
    pub grid: String,
    /// threads or mpi
    #[arg(long, value_name = "threads|mpi", default_value = "threads")]
    pub transport: String,
    /// Command that starts MPI ranks [default: mpirun -n {ranks}; also SHARDMARK_LAUNCHER]
    #[arg(long, value_name = "TEMPLATE")]
    pub launcher: Option<String>,
}
