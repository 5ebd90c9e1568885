//! The record as plain data. Times are in seconds, sizes in bytes, missing numbers are NaN.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{Detail, Mark, Outcome, Phase, Source};

/// One case: what ran, how it ended, what was measured, where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What ran.
    pub case: Case,
    /// How the samples came about.
    pub source: Source,
    /// How it ended.
    pub outcome: Outcome,
    /// One line about the outcome; empty if there is nothing to say.
    pub message: String,
    /// Why it is not a standard result.
    pub marks: Vec<Mark>,
    /// Verdict of the comparison with the serial run; `None` if there was none.
    pub check: Option<Check>,
    /// Seconds by repeat, step, rank and phase.
    pub samples: Samples,
    /// Training loss, `[repeat][step]`.
    pub losses: Vec<Vec<f64>>,
    /// Loss and errors on held-out samples, by epoch.
    pub validation: Option<Validation>,
    /// Time, FLOPs and bytes by layer.
    pub layers: Layers,
    /// Messages and bytes by operation.
    pub traffic: Traffic,
    /// Peak resident memory of each rank (of its process, with threads), bytes.
    pub memory: Vec<u64>,
    /// Commit, compiler, machine, libraries, start time ...; see `SCHEMA.md` for the keys.
    pub provenance: BTreeMap<String, String>,
}

/// What ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// The case line, every key resolved.
    pub line: String,
    /// Hash of the line and the schema: the file's name.
    pub hash: String,
    /// Resolved text of the suite.
    pub suite: String,
    /// Each key of the line and its value; the workload under `workload`.
    pub settings: BTreeMap<String, String>,
}

/// Verdict of the comparison with the serial run.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Whether everything was within its tolerance.
    pub passed: bool,
    /// Largest fraction of a tolerance that was used; above 1 the check failed.
    pub used: f64,
    /// What was compared, and the worst tensor.
    pub text: String,
}

/// Seconds by repeat, step, rank and phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Number of ranks.
    pub ranks: usize,
    /// For each step whether it is warm-up; its length is the number of steps.
    pub warmup: Vec<bool>,
    /// Row-major `[repeat, step, rank, phase]`, phases in the order of [`Phase::ALL`].
    pub seconds: Vec<f64>,
}

impl Samples {
    /// Samples of `repeats` x `warmup.len()` x `ranks`, all NaN.
    pub fn new(repeats: usize, warmup: Vec<bool>, ranks: usize) -> Self {
        let seconds = vec![f64::NAN; repeats * warmup.len() * ranks * Phase::ALL.len()];
        Samples { ranks, warmup, seconds }
    }

    /// Number of steps, warm-up included.
    pub fn steps(&self) -> usize {
        self.warmup.len()
    }

    /// Number of repeats.
    pub fn repeats(&self) -> usize {
        match self.steps() * self.ranks * Phase::ALL.len() {
            0 => 0,
            per_repeat => self.seconds.len() / per_repeat,
        }
    }

    /// Seconds of one sample; NaN if it was not measured or is outside.
    pub fn get(&self, repeat: usize, step: usize, rank: usize, phase: Phase) -> f64 {
        self.index(repeat, step, rank, phase).map_or(f64::NAN, |index| self.seconds[index])
    }

    /// Sets one sample; outside of the extents nothing happens.
    pub fn set(&mut self, repeat: usize, step: usize, rank: usize, phase: Phase, seconds: f64) {
        if let Some(index) = self.index(repeat, step, rank, phase) {
            self.seconds[index] = seconds;
        }
    }

    fn index(&self, repeat: usize, step: usize, rank: usize, phase: Phase) -> Option<usize> {
        if step >= self.steps() || rank >= self.ranks {
            return None;
        }
        let index = ((repeat * self.steps() + step) * self.ranks + rank) * Phase::ALL.len() + phase as usize;
        (index < self.seconds.len()).then_some(index)
    }
}

/// Loss and errors on held-out samples, by epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Epoch of each row, counted from 1; 0 is before training.
    pub epoch: Vec<i64>,
    /// Mean training loss of the epoch.
    pub train_loss: Vec<f64>,
    /// Loss on the held-out samples after the epoch.
    pub loss: Vec<f64>,
    /// Names of the predicted parameters.
    pub parameters: Vec<String>,
    /// Root mean square error of each parameter, `[epoch][parameter]`, in the parameter's unit.
    pub rmse: Vec<Vec<f64>>,
    /// Standard deviation of each parameter's labels over the held-out samples: the error of a constant guess.
    pub label_std: Vec<f64>,
}

/// Time, FLOPs and bytes by layer and pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// Which ranks the columns of `seconds` name.
    pub detail: Detail,
    /// A row for each layer and pass.
    pub rows: Vec<Layer>,
}

/// One layer in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Name in the network, such as `conv1`.
    pub name: String,
    /// Kind, such as `conv3d`.
    pub kind: String,
    /// `forward`, `backward` or `update`.
    pub pass: String,
    /// Median seconds over the timed steps: of each rank, or of the fastest, median and slowest rank.
    pub seconds: Vec<f64>,
    /// Floating-point operations of one step over all ranks.
    pub flops: f64,
    /// Bytes read and written by one step over all ranks, at least.
    pub bytes: f64,
}

/// Messages and payload bytes of the timed steps, by rank and operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Operations, such as `send` or `allreduce`.
    pub operations: Vec<String>,
    /// Number of calls, `[rank][operation]`.
    pub messages: Vec<Vec<u64>>,
    /// Payload bytes, `[rank][operation]`.
    pub bytes: Vec<Vec<u64>>,
}

impl Record {
    /// A record of a case without samples: what the supervisor writes for a case that did not finish.
    pub fn without_samples(case: Case, outcome: Outcome, message: impl Into<String>) -> Self {
        Record {
            case,
            source: Source::Measured,
            outcome,
            message: message.into(),
            marks: Vec::new(),
            check: None,
            samples: Samples::default(),
            losses: Vec::new(),
            validation: None,
            layers: Layers { detail: Detail::None, rows: Vec::new() },
            traffic: Traffic::default(),
            memory: Vec::new(),
            provenance: BTreeMap::new(),
        }
    }

    /// Value of a key of the case line.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.case.settings.get(key).map(String::as_str)
    }

    /// Whether the record may be reported as a result: it ended well, and what a clock measured was checked and passed.
    pub fn is_result(&self) -> bool {
        let passed = self.check.as_ref().is_some_and(|check| check.passed);
        self.outcome == Outcome::Ok && (passed || self.source != Source::Measured)
    }

    /// The file of a case in a results folder.
    pub fn path(folder: &Path, hash: &str) -> PathBuf {
        folder.join(format!("{hash}.h5"))
    }
}
