//! The registry of layer shapes, and what it takes to time a layer: its data, the machine's multiply-add peak and memory
//! bandwidth, and a server that runs a case when it is asked to.
//!
//! A shape is one problem line, which is also its label: a layer ([`shardmark_problem`] has the grammar), or `adam len=1000000`
//! (`sgd` alike).
//!
//! Files hold lines by role: `smoke` (tests: every layer and path, small), `peers` (convolutions and dense layers that
//! `ci/peers` compares with PyTorch), `memory` (layers that move more than they compute, compared too), `paper` (published),
//! `tails` (sizes that fill no vector, tile or cache block).

mod case;
mod memory;
mod pass;
pub mod peak;
mod problem;
pub mod server;
pub mod stream;
mod transposed;

#[cfg(test)]
mod tests;

pub use case::Case;
pub use pass::{Amount, Pass};
pub use problem::{Problem, ProblemError, Work};

use std::error::Error;
use std::process::ExitCode;

/// Roles and the text of their files.
pub const ROLES: [(&str, &str); 5] = [
    ("smoke", include_str!("../shapes/smoke.txt")),
    ("peers", include_str!("../shapes/peers.txt")),
    ("memory", include_str!("../shapes/memory.txt")),
    ("paper", include_str!("../shapes/paper.txt")),
    ("tails", include_str!("../shapes/tails.txt")),
];

/// The problems of a role's file; `#` starts a comment.
///
/// # Errors
/// The first line that is not a problem.
pub fn problems(text: &str) -> Result<Vec<Problem>, ProblemError> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
    lines.filter(|l| !l.is_empty()).map(str::parse).collect()
}

/// How a program ends; an error is told in a line.
pub fn end(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
