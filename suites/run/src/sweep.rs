//! The cases of a sweep one after another; whatever one of them does, the others run.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use shardmark_plan::exit::Exit;
use shardmark_plan::keys::KEYS;
use shardmark_plan::{Case, Context, Event, Outcome, Planned};

use crate::columns::{self, Columns};
use crate::error::RunError;
use crate::launch::Launcher;
use crate::progress::Progress;
use crate::results::Results;
use crate::signals::Signals;
use crate::supervise::{Ended, Job, supervise};

/// Lines of a case's log that go into the record of a failure.
const LOG_LINES: usize = 8;

/// A sweep that is ready to run.
pub struct Sweep<'a> {
    /// Where its results go.
    pub results: &'a Results,
    /// Its cases.
    pub planned: Vec<Planned>,
    /// How ranks are started.
    pub launcher: &'a Launcher,
    /// What its records have in common.
    pub context: Context,
    /// Whether cases that failed are run again; those that ended well or were skipped never are.
    pub retry: bool,
}

impl Sweep<'_> {
    /// Runs every case that has no result yet, printing a row for each.
    ///
    /// # Errors
    /// The results folder cannot be written. A case that fails is no error here: it has a row and a record.
    pub fn run(mut self, signals: &Signals) -> Result<Exit, RunError> {
        let start = Instant::now();
        let planned = std::mem::take(&mut self.planned);
        self.results.add_cases(&planned)?;
        self.results.write_context(&self.context)?;
        let mut report = Report::new(&planned);
        let mut count = Counts::default();
        let mut failed_before = false;
        for (index, planned) in planned.iter().enumerate() {
            let name = format!("case {}/{}", index + 1, report.total);
            if let Some(outcome) = self.results.outcome(&planned.case).filter(|&outcome| !self.again(outcome)) {
                report.row(None, &planned.case, outcome, None, "done before");
                failed_before |= outcome.is_failure();
                count.add(outcome);
                continue;
            }
            if signals.take().is_some() {
                count.interrupted = true;
                break;
            }
            let progress = Progress::new(&name);
            let ended = self.case(planned, signals, &progress)?;
            count.add(ended.outcome);
            report.row(
                Some(&progress),
                &planned.case,
                ended.outcome,
                median_step(&planned.case, &ended.events),
                &ended.message,
            );
            if count.interrupted {
                break;
            }
        }
        println!(
            "{} in {}; {}",
            count.text(report.total),
            columns::seconds(start.elapsed().as_secs_f64()),
            self.results.path().display()
        );
        if failed_before && !count.interrupted {
            println!("cases that failed before are not run again; add --retry to run them");
        }
        if count.interrupted {
            println!("interrupted; finish with `shardmark resume {}`", self.results.path().display());
        }
        Ok(count.exit())
    }

    fn again(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Interrupted || (self.retry && outcome.is_failure())
    }

    /// Runs or skips one case, and sees to it that there is a record (unless it was interrupted).
    fn case(&mut self, planned: &Planned, signals: &Signals, progress: &Progress) -> Result<Ended, RunError> {
        let case = &planned.case;
        self.results.forget(case)?;
        let mut context = self.context.clone();
        context.oversubscribed = self.launcher.oversubscribed(case);
        context.provenance.extend(self.launcher.provenance(case));
        let ended = match &planned.skip {
            Some(skip) => Ended::before_start(skip.outcome, skip.reason.clone()),
            None => {
                self.results.write_context(&context)?;
                self.start(case, signals, progress)?
            }
        };
        if ended.outcome == Outcome::Interrupted {
            self.results.forget(case)?;
        } else if !self.results.record(case).exists() {
            // The rank program says that it wrote a record, and there is none: the case has failed all the same.
            let outcome = if ended.outcome == Outcome::Ok { Outcome::Failed } else { ended.outcome };
            let log = &ended.tail[ended.tail.len().saturating_sub(LOG_LINES)..];
            let message =
                if log.is_empty() { ended.message.clone() } else { format!("{}\n{}", ended.message, log.join("\n")) };
            self.results.write_unfinished(case, outcome, message, &context)?;
            return Ok(Ended { outcome, ..ended });
        }
        Ok(ended)
    }

    fn start(&self, case: &Case, signals: &Signals, progress: &Progress) -> Result<Ended, RunError> {
        let (line, record, context) = (case.resolved(), self.results.record(case), self.results.context());
        let (record, context) = (record.to_string_lossy(), context.to_string_lossy());
        let arguments = ["case", &line, "--record", &record, "--context", &context];
        let command = self.launcher.command(case.transport, case.ranks, case.threads_per_rank, &arguments);
        let program = program_name(&command);
        let job = Job {
            title: format!("shardmark run \"{case}\""),
            command,
            ranks: case.ranks,
            on_our_death: Launcher::on_our_death(case.transport),
            log: self.results.log(case),
            hang_limit: case.hang_limit.given().and_then(duration),
            timeout: case.timeout.and_then(duration),
        };
        supervise(job, signals, &mut |event| progress.event(event)).or_else(|error| start_failed(&program, &error))
    }
}

/// A process that did not start is this case's failure: other cases may use another transport.
fn start_failed(program: &str, error: &io::Error) -> Result<Ended, RunError> {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "install it (Debian: openmpi-bin) or give --launcher",
        _ => "see `shardmark env`",
    };
    Ok(Ended::before_start(Outcome::Failed, format!("{program}: expected to start, got: {error}; {remedy}")))
}

/// The name of a command's program.
pub fn program_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Median over the timed steps of the slowest rank's seconds.
fn median_step(case: &Case, events: &[Event]) -> Option<f64> {
    let round = if case.epochs > 0 { usize::MAX } else { case.warmup + case.steps };
    let mut timed: Vec<f64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step { step, seconds, .. } => (step % round >= case.warmup).then_some(*seconds),
            _ => None,
        })
        .collect();
    timed.sort_by(f64::total_cmp);
    let middle = timed.len() / 2;
    match timed.len() {
        0 => None,
        n if n % 2 == 1 => Some(timed[middle]),
        _ => Some((timed[middle - 1] + timed[middle]) / 2.0),
    }
}

/// Prints a row for each case as it ends.
struct Report {
    keys: Vec<usize>,
    columns: Columns,
    total: usize,
}

impl Report {
    /// The columns are grid, ranks and the keys in which the cases differ.
    fn new(planned: &[Planned]) -> Report {
        let keys = differing(planned);
        let cells = |case: &Case| -> Vec<String> { keys.iter().map(|&key| (KEYS[key].get)(case)).collect() };
        let mut rows: Vec<Vec<String>> = planned.iter().map(|planned| cells(&planned.case)).collect();
        let mut header: Vec<String> = keys.iter().map(|&key| KEYS[key].name.to_string()).collect();
        header.extend(["outcome", "step", "note"].map(String::from));
        rows.push(header.clone());
        let mut columns = Columns::fitting(rows.iter().map(Vec::as_slice));
        println!("{}", columns.line(&header));
        Report { keys, columns, total: planned.len() }
    }

    fn row(&mut self, progress: Option<&Progress>, case: &Case, outcome: Outcome, step: Option<f64>, message: &str) {
        let mut row: Vec<String> = self.keys.iter().map(|&key| (KEYS[key].get)(case)).collect();
        row.push(outcome.word().into());
        row.push(step.map(columns::seconds).unwrap_or_default());
        row.push(message.lines().next().unwrap_or_default().into());
        let line = self.columns.line(&row);
        match progress {
            Some(progress) => progress.print(&line),
            None => println!("{line}"),
        }
    }
}

/// Grid, ranks, and the keys in which the cases differ, as indices into the table of keys.
pub fn differing(planned: &[Planned]) -> Vec<usize> {
    let differs = |key: usize| {
        let mut values = planned.iter().map(|planned| (KEYS[key].get)(&planned.case));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    (0..KEYS.len()).filter(|&key| ["grid", "ranks"].contains(&KEYS[key].name) || differs(key)).collect()
}

/// How many cases ended how.
#[derive(Default)]
struct Counts {
    of: BTreeMap<Outcome, usize>,
    interrupted: bool,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        *self.of.entry(outcome).or_default() += 1;
        self.interrupted |= outcome == Outcome::Interrupted;
    }

    fn text(&self, total: usize) -> String {
        let each: Vec<String> = self.of.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        format!("{total} cases: {}", if each.is_empty() { "none run".into() } else { each.join(", ") })
    }

    fn exit(&self) -> Exit {
        let failures = self.of.keys().filter(|outcome| outcome.is_failure());
        let worst = failures.fold(None, |worst, &outcome| match worst {
            Some(Exit::Failed) => worst,
            _ if outcome == Outcome::Timeout => Some(Exit::Timeout),
            _ => Some(Exit::Failed),
        });
        if self.interrupted { Exit::Interrupted } else { worst.unwrap_or(Exit::Ok) }
    }
}
