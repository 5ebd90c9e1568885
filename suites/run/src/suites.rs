//! Suites by name, and what the command line makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use shardmark_plan::expand::Filter;
use shardmark_plan::{Case, Planned, Suite};

use crate::cli::Select;
use crate::error::RunError;

/// A suite with the changes of environment and flags, and the cases that are wanted.
pub struct Selected {
    /// Name of the suite; the default folder of its results.
    pub name: String,
    /// Its resolved text.
    pub resolved: String,
    /// Its cases.
    pub planned: Vec<Planned>,
}

/// Reads what `run` and `list` are given: a suite's name, a suite file or a case line.
///
/// # Errors
/// No such suite, a mistake in it or in a flag, nothing left.
pub fn select(argument: &str, select: &Select) -> Result<Selected, RunError> {
    if let Some(case) = case_line(argument, select) {
        let case = case?;
        let resolved = format!("# one case\n# {}\n", case.resolved());
        return Ok(Selected { name: "case".into(), resolved, planned: vec![case.into()] });
    }
    let mut suite = Suite::read(&find(argument)?)?;
    suite.set_environment(|name| std::env::var(name).ok())?;
    for pair in &select.set {
        suite.set_pair(pair)?;
    }
    let flags = [
        ("ranks", &select.ranks),
        ("threads_per_rank", &select.threads_per_rank),
        ("transport", &select.transport),
        ("repeat", &select.repeat),
        ("warmup", &select.warmup),
    ];
    for (key, value) in flags {
        if let Some(value) = value {
            suite.set(key, value, &format!("--{}", key.replace('_', "-")))?;
        }
    }
    let filter = Filter::parse(&select.only)?;
    let mut planned = suite.cases()?;
    let cases = planned.len();
    planned.retain(|planned| filter.keeps(&planned.case));
    if planned.is_empty() {
        return Err(RunError::NoCases { cases });
    }
    Ok(Selected { name: suite.name().into(), resolved: suite.resolved(), planned })
}

/// The case if the argument is a case line: it has settings, or flags that only a suite takes are absent and no file
/// fits.
fn case_line(argument: &str, select: &Select) -> Option<Result<Case, RunError>> {
    let first = argument.split_whitespace().next()?;
    let is_line = (argument.contains('=') || first.starts_with("comm:")) && !first.ends_with(".toml");
    is_line.then(|| match flags_of_suites(select) {
        Some(flag) => Err(RunError::OnlySuites { flag }),
        None => Ok(Case::parse(argument)?),
    })
}

fn flags_of_suites(select: &Select) -> Option<&'static str> {
    let flags = [
        ("-S", !select.set.is_empty()),
        ("--where", !select.only.is_empty()),
        ("--ranks", select.ranks.is_some()),
        ("--threads-per-rank", select.threads_per_rank.is_some()),
        ("--transport", select.transport.is_some()),
        ("--repeat", select.repeat.is_some()),
        ("--warmup", select.warmup.is_some()),
    ];
    flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
}

/// The suite file that an argument names.
fn find(argument: &str) -> Result<PathBuf, RunError> {
    let path = PathBuf::from(argument);
    if path.is_file() {
        return Ok(path);
    }
    let known = all();
    let named = known.iter().find(|(name, _)| name == argument || name.replace('-', "/") == argument);
    named.map(|(_, path)| path.clone()).ok_or_else(|| {
        let name = argument.into();
        match known.is_empty() {
            true => RunError::NoSuites { name, looked: places() },
            false => RunError::NoSuite { name, known: known.iter().map(|(name, _)| name.clone()).collect() },
        }
    })
}

/// All suites in the folder `suites`, by name.
pub fn all() -> Vec<(String, PathBuf)> {
    let Some(folder) = folder() else { return Vec::new() };
    let mut suites: Vec<(String, PathBuf)> = [""]
        .iter()
        .chain(&shardmark_plan::suite::FOLDERS)
        .filter_map(|sub| fs::read_dir(folder.join(sub)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("Cargo.toml"))
        .map(|path| (shardmark_plan::suite::name(&path), path))
        .collect();
    suites.sort();
    suites
}

/// The folder `suites`: here, or in the source tree that this program was built in.
fn folder() -> Option<PathBuf> {
    let is_suites = |folder: &PathBuf| folder.join("smoke.toml").is_file();
    let exe = std::env::current_exe().ok();
    let near = exe.iter().flat_map(|exe| exe.ancestors().map(|folder| folder.join("suites"))).find(is_suites);
    Some(PathBuf::from("suites")).filter(is_suites).or(near)
}

/// Where [`folder`] looks, in words.
pub fn places() -> Vec<String> {
    let show = |path: std::io::Result<PathBuf>| path.map_or("an unknown place".into(), |p| p.display().to_string());
    let here = show(std::env::current_dir());
    vec![here, format!("the folders above {}", show(std::env::current_exe()))]
}

/// What the comment at the top of a suite file says.
pub fn description(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let all = lines.collect::<Vec<_>>().join(" ");
    all.split_once(". ").map_or(all.clone(), |(first, _)| first.to_string()).trim_end_matches('.').to_string()
}
