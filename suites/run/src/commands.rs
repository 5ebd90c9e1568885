//! The commands that are about suites and sweeps: list, run, resume, status.

use std::path::{Path, PathBuf};

use shardmark_plan::exit::Exit;
use shardmark_plan::keys::KEYS;
use shardmark_plan::{Context, Planned};

use crate::cli::{List, Resume, Run, Start, Status};
use crate::columns;
use crate::error::RunError;
use crate::launch::{self, Launcher};
use crate::memory;
use crate::results::Results;
use crate::signals::Signals;
use crate::suites;
use crate::sweep::{Sweep, differing};

/// Where results are if nothing else is said.
const RUNS: &str = "results/runs";

/// `shardmark list`.
pub fn list(arguments: &List) -> Result<Exit, RunError> {
    let rows: Vec<Vec<String>> = if arguments.keys {
        let row =
            |key: &shardmark_plan::keys::Key| vec![key.name.into(), key.form.into(), key.default(), key.doc.into()];
        std::iter::once(["key", "values", "default", "meaning"].map(String::from).to_vec())
            .chain(KEYS.iter().map(row))
            .collect()
    } else if let Some(name) = &arguments.suite {
        let selected = suites::select(name, &arguments.select)?;
        selected.planned.iter().map(|planned| vec![line(planned)]).collect()
    } else {
        let suites = suites::all();
        if suites.is_empty() {
            println!("no folder suites (with smoke.toml in it) in {}", suites::places().join(" or "));
        }
        suites.into_iter().map(|(name, path)| vec![name, suites::description(&path)]).collect()
    };
    print(&rows);
    Ok(Exit::Ok)
}

/// A case as it is listed: its short line, and why it would not run.
fn line(planned: &Planned) -> String {
    match &planned.skip {
        None => planned.case.to_string(),
        Some(skip) => format!("{}  # {}: {}", planned.case, skip.outcome, skip.reason),
    }
}

fn print(rows: &[Vec<String>]) {
    for line in columns::table(rows) {
        println!("{line}");
    }
}

/// `shardmark run`.
pub fn run(arguments: &Run) -> Result<Exit, RunError> {
    let selected = suites::select(&arguments.suite, &arguments.select)?;
    let template = template(&arguments.start, None);
    let launcher = Launcher::new(&template)?;
    if arguments.dry_run {
        for planned in &selected.planned {
            println!("{}", line(planned));
            if planned.skip.is_none() {
                println!("    {}", memory::text(&launcher, &planned.case));
            }
        }
        return Ok(Exit::Ok);
    }
    let path = arguments.results.clone().unwrap_or_else(|| Path::new(RUNS).join(&selected.name));
    let results = Results::open(&path)?;
    if arguments.fresh {
        for planned in &selected.planned {
            results.forget(&planned.case)?;
        }
    }
    let context = Context {
        suite: selected.name,
        resolved: selected.resolved,
        launcher: template,
        oversubscribed: false,
        provenance: launcher.origin(),
    };
    sweep(&results, selected.planned, &launcher, context, &arguments.start)
}

/// `shardmark resume`.
pub fn resume(arguments: &Resume) -> Result<Exit, RunError> {
    let path = folder(&arguments.results);
    let planned = Results::look(&path)?.cases()?;
    let results = Results::open(&path)?;
    let mut context = Context::read(&results.context())?;
    context.launcher = template(&arguments.start, Some(&context.launcher));
    let launcher = Launcher::new(&context.launcher)?;
    context.provenance = launcher.origin();
    sweep(&results, planned, &launcher, context, &arguments.start)
}

fn sweep(
    results: &Results,
    planned: Vec<Planned>,
    launcher: &Launcher,
    context: Context,
    start: &Start,
) -> Result<Exit, RunError> {
    if !start.mix {
        results.check_same(&context.provenance)?;
    }
    let signals =
        Signals::install().map_err(|source| crate::results::file(results.path(), "to catch signals", source))?;
    Sweep { results, planned, launcher, context, retry: start.retry }.run(&signals)
}

/// The launcher: flag, environment, what the sweep had, default.
fn template(start: &Start, before: Option<&str>) -> String {
    let environment = || std::env::var("SHARDMARK_LAUNCHER").ok();
    start.launcher.clone().or_else(environment).unwrap_or_else(|| before.unwrap_or(launch::DEFAULT_LAUNCHER).into())
}

/// The folder that an argument of `resume`, `status`, `table` or `plot` names.
pub fn folder(argument: &str) -> PathBuf {
    let named = Path::new(RUNS).join(argument.replace('/', "-"));
    if !Path::new(argument).is_dir() && named.is_dir() { named } else { argument.into() }
}

/// `shardmark status`.
pub fn status(arguments: &Status) -> Result<Exit, RunError> {
    let results = Results::look(&folder(&arguments.results))?;
    let planned = results.cases()?;
    let keys = differing(&planned);
    let mut header: Vec<String> = keys.iter().map(|&key| KEYS[key].name.to_string()).collect();
    header.push("outcome".into());
    let mut rows = vec![header];
    let mut missing = 0;
    for planned in &planned {
        let outcome = results.outcome(&planned.case);
        missing += usize::from(outcome.is_none());
        let mut row: Vec<String> = keys.iter().map(|&key| (KEYS[key].get)(&planned.case)).collect();
        row.push(outcome.map_or("-", |outcome| outcome.word()).into());
        rows.push(row);
    }
    print(&rows);
    println!("{} of {} cases have a result; {}", planned.len() - missing, planned.len(), results.path().display());
    if missing > 0 {
        println!("finish with `shardmark resume {}`", results.path().display());
    }
    Ok(if missing > 0 { Exit::Incomplete } else { Exit::Ok })
}
