//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use shardmark_datasets::cosmoflow::Dtype;
use shardmark_plan::check_ranks;
use shardmark_report::{Format, Kind};

/// Scaling benchmarks of partitioned deep-learning training: run sweeps, check them, tabulate and draw them.
#[derive(Parser)]
#[command(name = "shardmark", version, max_term_width = 110, after_help = AFTER)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Exit codes: 0 ok; 1 a check or case failed; 2 wrong arguments or input; 4 the sweep is incomplete; 124 a case took
longer than its timeout; 130 interrupted (finish with `shardmark resume`).

Settings: a flag wins over the environment (SHARDMARK_WIDTH=32), that over the suite file, that over the default.
SHARDMARK_LAUNCHER is the MPI launcher; SHARDMARK_RANK_PROGRAM the rank program, if it is not beside this one.
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
    /// Make or inspect datasets
    #[command(subcommand)]
    Data(Data),
    /// Tabulate the results of a sweep
    Table(Table),
    /// Draw the results of a sweep
    Plot(Plot),
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
    /// Threads that share a rank's kernels: --threads-per-rank 1,2
    #[arg(long, value_name = "LIST")]
    pub threads_per_rank: Option<String>,
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
    /// Print the cases and the memory that their tensors take by the plan, and run nothing
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
    #[arg(long, value_name = "LIST", default_value = "1,2,3,4,6,8", help = format!(
        "Rank counts, each at most {}; every grid of each is checked", check_ranks::MOST
    ))]
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

/// `data`.
#[derive(Subcommand)]
pub enum Data {
    /// Simulate universes with known cosmological parameters, one HDF5 file each; what is there already is not made
    /// again
    Make(Make),
    /// Show what a dataset holds: files, shapes, parameters, statistics, what is broken
    Inspect {
        /// Folder of the dataset
        dir: PathBuf,
    },
}

/// `data make`.
#[derive(Args)]
pub struct Make {
    /// Folder of the dataset
    pub dir: PathBuf,
    /// Cells along each axis
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub cells: usize,
    /// Length of each axis in Mpc/h
    #[arg(long, value_name = "MPC_H", default_value_t = 512.0)]
    pub side: f64,
    /// Redshifts, one channel each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,0.5,1.5,3")]
    pub redshifts: Vec<f64>,
    /// Universes to train on
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub train: usize,
    /// Universes to watch the training with
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub validation: usize,
    /// Universes for the last word
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub test: usize,
    /// Seed of parameters and fields
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How densities are stored
    #[arg(long, value_name = "i16|f32", default_value = "i16", value_parser = dtype)]
    pub dtype: Dtype,
    /// Worker threads [default: all]; the universes do not depend on it
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// `table`.
#[derive(Args)]
pub struct Table {
    /// Folder of the results, or the name of the suite
    pub results: String,
    /// Form of the table
    #[arg(long, value_name = "text|csv|markdown", default_value = "text", value_parser = Format::from_str)]
    pub format: Format,
    /// Write it to a file instead
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `plot`.
#[derive(Args)]
pub struct Plot {
    /// strong: speed-up; time: time per step; weak: time and efficiency; loss: training curves; layers:
    /// both passes of single layers
    #[arg(value_name = "strong|time|weak|loss|layers", value_parser = Kind::from_str)]
    pub kind: Kind,
    /// Folder of the results, or the name of the suite
    pub results: String,
    /// Figure files, *.svg or *.png [default: both, in the folder of the results]
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,
}

fn dtype(text: &str) -> Result<Dtype, String> {
    [Dtype::I16, Dtype::F32]
        .into_iter()
        .find(|dtype| dtype.to_string() == text)
        .ok_or_else(|| format!("expected i16 or f32, got {text}"))
}
