//! The folder of a sweep: `<hash>.h5` a record, `logs/<hash>.log` its output, `cases.txt` what belongs to the sweep (a
//! case line each), `suite.toml` the resolved suite, `context.json` where the results come from.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use shardmark_plan::{Case, Context, Outcome, Planned};
use shardmark_store::{Mark, Record, SCHEMA};

use crate::error::RunError;

/// Provenance that must not differ within one sweep.
const SAME: [&str; 5] = ["commit", "rustc", "rustflags", "host", "cpu"];

/// The same of what may be unknown: cases that run with a wrong wish have their own error.
const SAME_IF_KNOWN: &str = "simd";

/// A folder of results.
pub struct Results {
    path: PathBuf,
    /// Held as long as this program works in the folder.
    _lock: Option<File>,
}

impl Results {
    /// Opens the folder for a sweep, makes it if it is not there, and keeps others from working in it.
    pub fn open(path: &Path) -> Result<Results, RunError> {
        let logs = path.join("logs");
        fs::create_dir_all(&logs).map_err(|source| file(&logs, "to make the folder", source))?;
        let name = path.join(".lock");
        let lock = File::create(&name).map_err(|source| file(&name, "to make the lock", source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Results { path: path.into(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(RunError::Busy { path: path.into() }),
            // A file system without locks: two runs at once are the user's care.
            Err(TryLockError::Error(_)) => Ok(Results { path: path.into(), _lock: None }),
        }
    }

    /// Looks at the folder of a sweep without changing it.
    pub fn look(path: &Path) -> Result<Results, RunError> {
        let results = Results { path: path.into(), _lock: None };
        if results.cases_file().is_file() { Ok(results) } else { Err(RunError::NoSweep { path: path.into() }) }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The record of a case.
    pub fn record(&self, case: &Case) -> PathBuf {
        Record::path(&self.path, &case.hash(SCHEMA))
    }

    /// The log of a case.
    pub fn log(&self, case: &Case) -> PathBuf {
        self.path.join("logs").join(format!("{}.log", case.hash(SCHEMA)))
    }

    /// The file with what the cases share.
    pub fn context(&self) -> PathBuf {
        self.path.join("context.json")
    }

    fn cases_file(&self) -> PathBuf {
        self.path.join("cases.txt")
    }

    /// How the case ended, if there is a record of it. A file that is no record counts as none: the case is run again.
    pub fn outcome(&self, case: &Case) -> Option<Outcome> {
        let path = self.record(case);
        if !path.exists() {
            return None;
        }
        match Record::read(&path) {
            Ok(record) => Outcome::ALL.iter().copied().find(|outcome| outcome.word() == record.outcome.name()),
            Err(error) => {
                eprintln!("shardmark: warning: {error}");
                None
            }
        }
    }

    /// Removes what is left of an earlier try.
    pub fn forget(&self, case: &Case) -> Result<(), RunError> {
        let record = self.record(case);
        for path in [record.clone(), record.with_extension("h5.part")] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(file(&path, "to remove the older file", source));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The cases of the sweep in the folder.
    pub fn cases(&self) -> Result<Vec<Planned>, RunError> {
        let path = self.cases_file();
        let text = fs::read_to_string(&path).map_err(|source| file(&path, "the list of cases", source))?;
        text.lines().map(|line| Ok(Case::parse(line)?.into())).collect()
    }

    /// Adds cases to the sweep; those that it has already keep their place.
    pub fn add_cases(&self, planned: &[Planned]) -> Result<(), RunError> {
        let path = self.cases_file();
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        for line in planned.iter().map(|planned| planned.case.resolved()) {
            if !text.lines().any(|other| other == line) {
                text += &line;
                text.push('\n');
            }
        }
        fs::write(&path, text).map_err(|source| file(&path, "to write the list of cases", source))
    }

    /// Stores the context for the rank program, and the resolved suite for people.
    pub fn write_context(&self, context: &Context) -> Result<(), RunError> {
        context.write(&self.context())?;
        let path = self.path.join("suite.toml");
        fs::write(&path, &context.resolved).map_err(|source| file(&path, "to write the suite", source))
    }

    /// Refuses to mix results of different code or machines in the folder, if it has any.
    pub fn check_same(&self, now: &BTreeMap<String, String>) -> Result<(), RunError> {
        let entries = fs::read_dir(&self.path).map_err(|source| file(&self.path, "to list the folder", source))?;
        let is_record = |path: PathBuf| path.extension().is_some_and(|extension| extension == "h5");
        if !entries.flatten().any(|entry| is_record(entry.path())) {
            return Ok(());
        }
        let Ok(old) = Context::read(&self.context()) else { return Ok(()) };
        let value =
            |map: &BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_else(|| "unknown".into());
        let known = old.provenance.contains_key(SAME_IF_KNOWN) && now.contains_key(SAME_IF_KNOWN);
        for key in SAME.into_iter().chain(known.then_some(SAME_IF_KNOWN)) {
            let (old, new) = (value(&old.provenance, key), value(now, key));
            if old != new {
                return Err(RunError::Mixed { path: self.path.clone(), what: key.into(), old, new });
            }
        }
        Ok(())
    }

    /// Writes the record of a case that did not get to write its own.
    pub fn write_unfinished(
        &self,
        case: &Case,
        outcome: Outcome,
        message: String,
        context: &Context,
    ) -> Result<(), RunError> {
        let stored = shardmark_store::Case {
            line: case.resolved(),
            hash: case.hash(SCHEMA),
            suite: context.resolved.clone(),
            settings: case.settings(),
        };
        let word = shardmark_store::Outcome::from_name(outcome.word()).unwrap_or(shardmark_store::Outcome::Failed);
        let mut record = Record::without_samples(stored, word, message);
        record.provenance = context.provenance.clone();
        if context.oversubscribed {
            record.marks.push(Mark::Oversubscribed);
        }
        let path = self.record(case);
        record.write(&path).map_err(|error| file(&path, "to write the record", io::Error::other(error)))
    }
}

/// Shorthand for [`RunError::File`].
pub fn file(path: &Path, what: &'static str, source: io::Error) -> RunError {
    RunError::File { path: path.into(), what, source }
}
