//! The program that runs on the ranks of one case: started once for thread ranks, or once a rank by an MPI launcher.
//!
//! It reports to the program `shardmark` by events on standard output and by its exit code; everything else that it
//! prints is the case's log.

mod bare;
mod case;
mod check;
mod error;
mod expectation;
mod fault;
mod input;
mod lone;
mod measure;
mod network;
mod ranks;
mod record;
mod reference_file;
mod samples;
mod train;
mod verify;

use clap::{Parser, Subcommand};
use shardmark_host::HugePages;
use shardmark_layers::conv::Isa;
use shardmark_plan::event::Memory;
use shardmark_plan::exit::RankExit;
use shardmark_plan::value::{Transport, Value};
use shardmark_plan::{Case, Context, PlanError};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Runs one case on its ranks; usually started by `shardmark`.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a case and write its record.
    Case {
        /// The case line.
        line: String,
        /// The record to write.
        #[arg(long)]
        record: PathBuf,
        /// What the supervisor knows about the case.
        #[arg(long)]
        context: Option<PathBuf>,
    },
    /// Compare every grid of some rank counts with the serial run.
    Check {
        /// Rank counts; under MPI the one of the launcher.
        #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,6,8", value_parser = check_ranks)]
        ranks: Vec<usize>,
        /// threads or mpi.
        #[arg(long, default_value = "threads", value_parser = transport)]
        transport: Transport,
        /// Only networks whose name contains this.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Compare a run with a reference file.
    Verify {
        /// The file; see ci/reference/FORMAT.md.
        file: PathBuf,
        /// Process grid.
        #[arg(long, default_value = "1x1x1x1")]
        grid: String,
        /// threads or mpi.
        #[arg(long, default_value = "threads", value_parser = transport)]
        transport: Transport,
        /// Only look whether file and grid fit together, in this process alone.
        #[arg(long)]
        look: bool,
    },
    /// Print the instruction set of the kernels: the best of this CPU, or the one that SHARDMARK_SIMD names.
    Simd,
    /// Print the bytes of tensors that each rank of a case holds at once by the plan, and those of its parameters.
    Memory {
        /// The case line.
        line: String,
    },
}

fn check_ranks(text: &str) -> Result<usize, PlanError> {
    shardmark_plan::check_ranks::read("--ranks", text)
}

fn transport(text: &str) -> Result<Transport, String> {
    Transport::read(text).ok_or_else(|| format!("transport: expected threads or mpi, got '{text}'"))
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // Other kernels than those that were asked for would be measured.
    if let (Some(complaint), false) = (Isa::complaint(), matches!(command, Command::Memory { .. })) {
        return ranks::refuse(format!("{complaint}; correct or unset it")).into();
    }
    let exit = match command {
        Command::Case { line, record, context } => run_case(&line, record, context),
        Command::Check { ranks, transport, only } => check::command(&ranks, transport, &only),
        Command::Verify { file, grid, transport, look } => verify::command(&file, &grid, transport, look),
        Command::Memory { line } => memory(&line),
        Command::Simd => {
            println!("{}", Isa::selected());
            RankExit::Ok
        }
    };
    exit.into()
}

fn run_case(line: &str, record: PathBuf, context: Option<PathBuf>) -> RankExit {
    let context = context.map_or(Ok(Context::default()), |path| Context::read(&path));
    match (Case::parse(line), context) {
        (Ok(parsed), Ok(context)) => case::run(&parsed, &record, &context),
        (Err(error), _) | (_, Err(error)) => usage(&error),
    }
}

fn memory(line: &str) -> RankExit {
    let parsed = match Case::parse(line) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error),
    };
    let estimate = network::memory(&parsed)
        .and_then(|rank_bytes| Ok(Memory { rank_bytes, parameter_bytes: network::parameter_bytes(&parsed)? }));
    match estimate {
        Ok(memory) => {
            println!("{}", memory.line());
            RankExit::Ok
        }
        Err(error) => usage(&error),
    }
}

fn usage(error: &dyn std::error::Error) -> RankExit {
    eprintln!("{error}");
    RankExit::Usage
}
