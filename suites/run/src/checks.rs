//! `check` and `verify`: the rank program compares, this program starts it, shows its progress and sums up.

use std::time::Duration;

use shardmark_plan::exit::{Exit, RankExit};
use shardmark_plan::outcome::Status;
use shardmark_plan::value::{Grid, Transport, Value};
use shardmark_plan::{Event, Outcome, PlanError, check_ranks};

use crate::cli::{Check, Verify};
use crate::columns::Columns;
use crate::error::RunError;
use crate::launch::{DEFAULT_LAUNCHER, Launcher};
use crate::progress::Progress;
use crate::results;
use crate::signals::Signals;
use crate::supervise::{Ended, Job, supervise};
use crate::sweep::program_name;

/// `shardmark check`.
pub fn check(arguments: &Check) -> Result<Exit, RunError> {
    let transport = transport(&arguments.transport)?;
    let launcher = launcher(arguments.launcher.as_deref())?;
    let counts = arguments.ranks.split(',').map(|text| check_ranks::read("--ranks", text));
    let ranks = counts.collect::<Result<Vec<usize>, _>>()?;
    let mut checks = Checks::new()?;
    let words = |ranks: String| {
        let mut words: Vec<String> =
            ["check", "--ranks", &ranks, "--transport", transport.word()].map(String::from).to_vec();
        words.extend(arguments.more.iter().cloned());
        words
    };
    match transport {
        // One process: the serial run is computed once for all grids.
        Transport::Threads => checks.run(&launcher, transport, 1, &words(arguments.ranks.clone()))?,
        Transport::Mpi => {
            for ranks in ranks {
                checks.run(&launcher, transport, ranks, &words(ranks.to_string()))?;
            }
        }
    }
    Ok(checks.summary())
}

/// `shardmark verify`.
pub fn verify(arguments: &Verify) -> Result<Exit, RunError> {
    let transport = transport(&arguments.transport)?;
    let launcher = launcher(arguments.launcher.as_deref())?;
    let grid = Grid::read(&arguments.grid).map(|grid| grid.size());
    let ranks = grid.ok_or_else(|| bad("grid", "NxDxHxW", &arguments.grid, "verify"))?;
    check_ranks::allow(ranks, "--grid", &arguments.grid)?;
    let file = arguments.file.to_string_lossy().into_owned();
    let words = ["verify", &file, "--grid", &arguments.grid, "--transport", transport.word()].map(String::from);
    let mut checks = Checks::new()?;
    if transport == Transport::Mpi {
        // One process refuses a wrong file or grid; many under a launcher would all do so, and it may crash over them.
        let look = [&words[..], &["--look".into()]].concat();
        checks.run(&launcher, Transport::Threads, 1, &look)?;
    }
    checks.run(&launcher, transport, ranks, &words)?;
    Ok(checks.summary())
}

/// What was compared so far.
struct Checks {
    signals: Signals,
    columns: Columns,
    /// Whether the table has its header: what is refused at once has no table.
    headed: bool,
    passed: usize,
    failed: usize,
    interrupted: bool,
}

impl Checks {
    fn new() -> Result<Checks, RunError> {
        let signals =
            Signals::install().map_err(|source| results::file("signals".as_ref(), "to catch them", source))?;
        let columns = Columns::fitting([]);
        Ok(Checks { signals, columns, headed: false, passed: 0, failed: 0, interrupted: false })
    }

    fn row(&mut self, progress: &Progress, row: [String; 3]) {
        if !self.headed {
            self.headed = true;
            progress.print(&self.columns.line(&["verdict", "tolerance used", "what"].map(String::from)));
        }
        progress.print(&self.columns.line(&row));
    }

    /// Runs the rank program once; each of its check events is a row.
    fn run(
        &mut self,
        launcher: &Launcher,
        transport: Transport,
        ranks: usize,
        words: &[String],
    ) -> Result<(), RunError> {
        if self.interrupted {
            return Ok(());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = launcher.command(transport, ranks, 1, &words);
        let program = program_name(&command);
        let log = std::env::temp_dir().join(format!("shardmark-{}-{}.log", words[0], std::process::id()));
        let job = Job {
            command,
            ranks,
            on_our_death: Launcher::on_our_death(transport),
            title: format!("shardmark-rank {}", words.join(" ")),
            log: log.clone(),
            // A check has long silent parts (the serial runs).
            hang_limit: Some(Duration::from_secs(600)),
            timeout: None,
        };
        let progress = Progress::new(&format!("{} {ranks}", words[0]));
        let signals = self.signals.clone();
        let ended = supervise(job, &signals, &mut |event| self.event(event, &progress));
        let ended = ended.map_err(|source| RunError::Start {
            command: program,
            source,
            remedy: "see `shardmark env` or give --launcher".into(),
        })?;
        let _ = std::fs::remove_file(log);
        // The verdicts are told row by row; anything else that went wrong has its own row and its log.
        let told = ended.events.iter().any(|event| matches!(event, Event::Check { passed: false, .. }));
        match ended.outcome {
            Outcome::Interrupted => self.interrupted = true,
            Outcome::Wrong if told => {}
            _ if ended.status == Some(Status::Code(0)) => {}
            Outcome::Failed if ended.status == Some(Status::Code(RankExit::Usage as i32)) => {
                return Err(RunError::Refused { message: refusal(ended) });
            }
            outcome => {
                self.failed += 1;
                self.row(&progress, [outcome.word().into(), String::new(), ended.message.clone()]);
                // The message may be a line of the log.
                for line in ended.tail.iter().filter(|line| !ended.message.ends_with(line.trim())) {
                    progress.print(&format!("    {line}"));
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, progress: &Progress) {
        progress.event(event);
        if let Event::Check { passed, used, message } = event {
            let verdict = if *passed { "passed" } else { "FAILED" };
            *(if *passed { &mut self.passed } else { &mut self.failed }) += 1;
            self.row(progress, [verdict.into(), format!("{used:.3}"), message.clone()]);
        }
    }

    fn summary(&self) -> Exit {
        println!("{} passed, {} failed", self.passed, self.failed);
        match (self.interrupted, self.failed, self.passed) {
            (true, ..) => Exit::Interrupted,
            (_, 0, 1..) => Exit::Ok,
            _ => Exit::Failed,
        }
    }
}

/// Why the rank program did not begin: what a rank said, else what its command line parser wrote.
fn refusal(ended: Ended) -> String {
    let said = ended.events.into_iter().find_map(|event| match event {
        Event::Failed { message, .. } => Some(message),
        _ => None,
    });
    let parser = || ended.tail.iter().find_map(|line| line.strip_prefix("error: ").map(String::from));
    said.or_else(parser).unwrap_or(ended.message)
}

fn transport(text: &str) -> Result<Transport, RunError> {
    Transport::read(text).ok_or_else(|| bad("transport", "threads | mpi", text, "--transport"))
}

fn launcher(flag: Option<&str>) -> Result<Launcher, RunError> {
    let environment = std::env::var("SHARDMARK_LAUNCHER").ok();
    Launcher::new(flag.or(environment.as_deref()).unwrap_or(DEFAULT_LAUNCHER))
}

fn bad(key: &'static str, form: &str, value: &str, place: &str) -> RunError {
    PlanError::BadValue { place: place.into(), key, form: form.into(), value: value.into() }.into()
}
