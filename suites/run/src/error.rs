//! What can go wrong with the program itself; each text says what was expected, what was found and what to do.

use std::path::PathBuf;

use shardmark_host::Shortage;
use shardmark_plan::PlanError;
use shardmark_plan::exit::Exit;

/// An error that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A suite, a case line or an override is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A dataset cannot be made or read.
    #[error(transparent)]
    Data(#[from] shardmark_datasets::Error),
    /// Records cannot be tabulated or drawn.
    #[error(transparent)]
    Report(#[from] shardmark_report::Error),
    /// The memory of this host cannot hold a universe while it is simulated.
    #[error("memory of a universe: {0}; lower --cells")]
    Universe(Shortage),
    /// No such suite.
    #[error(
        "suite {name}: expected a TOML file, or one of the suites {}, got neither; see `shardmark list`",
        known.join(" ")
    )]
    NoSuite {
        /// The argument.
        name: String,
        /// The suites in the folder `suites`.
        known: Vec<String>,
    },
    /// No such suite file, and no folder of suites.
    #[error(
        "suite {name}: expected a TOML file, or a suite of a folder suites (with smoke.toml in it) in {}, got neither; \
         give the file's path or run this in the source tree",
        looked.join(" or ")
    )]
    NoSuites {
        /// The argument.
        name: String,
        /// Where the folder was looked for.
        looked: Vec<String>,
    },
    /// A flag that changes suites, with a case line.
    #[error("{flag}: expected a suite to change, got one case line; write the setting into the line")]
    OnlySuites {
        /// The flag.
        flag: &'static str,
    },
    /// The rank program is missing.
    #[error(
        "rank program: expected {}, got no such file; run `cargo build --release` or set SHARDMARK_RANK_PROGRAM",
        path.display()
    )]
    NoRankProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// A launcher template without `{ranks}`.
    #[error(
        "launcher: expected a command with {{ranks}} in it, got {got:?}; write for example \"mpirun -n {{ranks}}\""
    )]
    Launcher {
        /// The template.
        got: String,
    },
    /// The rank program refused its arguments or its input, in its own words.
    #[error("{message}")]
    Refused {
        /// What it said.
        message: String,
    },
    /// A case's process could not be started.
    #[error("{command}: expected to start, got: {source}; {remedy}")]
    Start {
        /// The first words of the command.
        command: String,
        /// The system's message.
        source: std::io::Error,
        /// What to do.
        remedy: String,
    },
    /// A file of the results folder could not be read or written.
    #[error("{}: expected {what}, got: {source}; check path and permissions", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        what: &'static str,
        /// The system's message.
        source: std::io::Error,
    },
    /// Another program works in the results folder.
    #[error("{}: expected no other run in this folder, got one; wait for it or give another --results", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Results of another program or machine are in the folder.
    #[error(
        "{}: expected results of the same {what} ({old}), got {new}; give another --results, --fresh to measure \
         again or --mix",
        path.display()
    )]
    Mixed {
        /// The folder.
        path: PathBuf,
        /// Which provenance differs.
        what: String,
        /// What the folder says.
        old: String,
        /// What is true now.
        new: String,
    },
    /// There is no sweep in the folder.
    #[error("{}: expected the results of a sweep, got no cases.txt; start one with `shardmark run`", path.display())]
    NoSweep {
        /// The folder.
        path: PathBuf,
    },
    /// No case is left after `--where`.
    #[error("--where: expected to keep at least one of {cases} cases, got none; see `shardmark list SUITE`")]
    NoCases {
        /// How many there were.
        cases: usize,
    },
}

impl RunError {
    /// The exit code that belongs to it.
    pub fn exit(&self) -> Exit {
        match self {
            RunError::Plan(_)
            | RunError::NoSuite { .. }
            | RunError::NoSuites { .. }
            | RunError::Launcher { .. }
            | RunError::NoCases { .. } => Exit::Usage,
            RunError::Universe(_) | RunError::Refused { .. } => Exit::Usage,
            RunError::Data(shardmark_datasets::Error::Spec { .. } | shardmark_datasets::Error::OtherSpec { .. }) => {
                Exit::Usage
            }
            RunError::OnlySuites { .. } | RunError::NoSweep { .. } | RunError::Mixed { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
