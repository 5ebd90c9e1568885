//! How a case ended, in one word.

use crate::event::Event;
use crate::exit::RankExit;
use crate::value::{Value, words};
use std::fmt;

words! {
    /// How a case ended.
    Outcome {
        /// It ran and its check passed (or none was asked for).
        Ok = "ok",
        /// It ran and its check failed.
        Wrong = "wrong",
        /// A rank failed or was killed.
        Failed = "failed",
        /// Memory ran out.
        OutOfMemory = "oom",
        /// It took longer than its `timeout`.
        Timeout = "timeout",
        /// A rank stopped answering.
        Hang = "hang",
        /// Its tensors need more memory than there is, so it was not started.
        WontFit = "wont-fit",
        /// It cannot run with work on every rank, so it was not started.
        Skipped = "skipped",
        /// The user stopped it.
        Interrupted = "interrupted",
    }
}

impl Outcome {
    /// Whether something went wrong (and was not decided before the start or by the user).
    pub fn is_failure(self) -> bool {
        !matches!(self, Outcome::Ok | Outcome::WontFit | Outcome::Skipped | Outcome::Interrupted)
    }
}

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why the supervisor ended the process, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The `timeout` was over.
    Timeout,
    /// No sign of life for the hang limit.
    Silent,
    /// A rank said that it failed or hangs, and the process did not end.
    Lingering,
    /// The user asked for it.
    Interrupted,
}

/// The outcome of a process that was started. A finished record wins: it says how the case ended. Then comes what the
/// supervisor did, then what the ranks said, then the exit code: launchers do not always hand on the code of the rank
/// that failed.
pub fn classify(stopped: Option<Stopped>, events: &[Event], status: Status, kernel_killed_for_memory: bool) -> Outcome {
    let said = |wanted: fn(&Event) -> bool| events.iter().any(wanted);
    let code = |exit: RankExit| status == Status::Code(exit as i32);
    if said(|event| matches!(event, Event::Done { .. })) {
        let wrong = code(RankExit::Wrong) || said(|event| matches!(event, Event::Check { passed: false, .. }));
        return if wrong { Outcome::Wrong } else { Outcome::Ok };
    }
    let hang = said(|event| matches!(event, Event::Hang { .. }));
    match stopped {
        Some(Stopped::Interrupted) => return Outcome::Interrupted,
        Some(Stopped::Timeout) if !hang => return Outcome::Timeout,
        Some(Stopped::Silent) => return Outcome::Hang,
        _ if hang => return Outcome::Hang,
        _ => {}
    }
    if code(RankExit::Hang) {
        Outcome::Hang
    } else if code(RankExit::WontFit) {
        Outcome::WontFit
    } else if code(RankExit::OutOfMemory) || (status != Status::Code(0) && kernel_killed_for_memory) {
        Outcome::OutOfMemory
    } else if code(RankExit::Wrong) {
        Outcome::Wrong
    } else {
        Outcome::Failed
    }
}
