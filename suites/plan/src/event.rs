//! What the rank program tells the supervisor: one JSON object a line on standard output, after a prefix.
//!
//! `@shardmark {"event":"step","step":3,"seconds":0.12,"loss":0.5}`; every other line is the case's log.

use std::io::Write;

use serde::{Deserialize, Serialize};

/// What an event line starts with.
pub const PREFIX: &str = "@shardmark ";

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A rank (with threads: the process, as rank 0) is up.
    Started {
        /// The rank.
        rank: usize,
        /// Its process.
        pid: u32,
        /// Its host.
        host: String,
    },
    /// What is going to happen (rank 0).
    Plan {
        /// Steps in all, with warm-up and repeats.
        steps: usize,
    },
    /// A step is over (rank 0).
    Step {
        /// Its number, from 0, counted through repeats.
        step: usize,
        /// Its time in seconds.
        seconds: f64,
        /// The loss; null in JSON if it is not finite.
        #[serde(with = "not_finite_as_null")]
        loss: f64,
    },
    /// The watchdog found a rank that waits too long.
    Hang {
        /// The rank.
        rank: usize,
        /// What it does: `recv`, `allreduce` ...
        operation: String,
        /// Whom it waits for.
        peers: Vec<usize>,
        /// Since when, in seconds.
        seconds: f64,
    },
    /// A rank cannot go on.
    Failed {
        /// The rank.
        rank: usize,
        /// Why.
        message: String,
    },
    /// A comparison with the serial run is over.
    Check {
        /// Whether it is within the tolerance.
        passed: bool,
        /// The fraction of the tolerance that was used.
        #[serde(with = "not_finite_as_null")]
        used: f64,
        /// What was compared, and where it was worst.
        message: String,
    },
    /// The record is written.
    Done {
        /// Its path.
        record: String,
    },
}

impl Event {
    /// The event as its line, without the line feed.
    pub fn line(&self) -> String {
        // Serialising to a string fails only for maps with keys that are not strings: there are none.
        format!("{PREFIX}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// Writes the line to standard output in one piece and flushes it; a closed pipe is ignored, since then nobody
    /// listens.
    pub fn emit(&self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all((self.line() + "\n").as_bytes()).and_then(|()| out.flush());
    }

    /// Reads a line; `None` if it is not an event (then it belongs to the log).
    pub fn parse(line: &str) -> Option<Event> {
        serde_json::from_str(line.trim_end().strip_prefix(PREFIX)?).ok()
    }
}

/// JSON has no NaN and no infinity.
mod not_finite_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

/// What `shardmark-rank memory "<case line>"` prints: one JSON object on one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Most bytes that each rank holds at once by the plan, without what is [`Memory::UNCOUNTED`]; for classes of equal
    /// ranks, one entry a rank all the same.
    pub rank_bytes: Vec<u64>,
    /// Bytes of all learned parameters, each counted once: what an allreduce of the whole gradient sums.
    pub parameter_bytes: u64,
}

impl Memory {
    /// What a rank holds beside the tensors of the plan, in words for messages.
    pub const UNCOUNTED: &str = "scratch, packed weights, stored samples, the program and its check";

    /// The estimate as the line that is printed.
    pub fn line(&self) -> String {
        // As for events, this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
