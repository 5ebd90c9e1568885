//! The registry of layer shapes, and what it takes to time a layer: its data and the machine's multiply-add peak.
//!
//! A shape is one problem line, which is also its label:
//! `conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1`. `kernel`, `stride` and `pad` hold one value for all
//! dimensions or one for each (`3x1x1`); a padding `0:1` is none before and one after. Files hold lines by role:
//! `smoke` (tests), `peers` (compared with PyTorch), `paper` (published), `tails` (odd sizes).

mod case;
pub mod peak;
mod problem;

#[cfg(test)]
mod tests;

pub use case::{Case, PASSES, Pass};
pub use problem::{Problem, ProblemError};

/// Roles and the text of their files.
pub const ROLES: [(&str, &str); 4] = [
    ("smoke", include_str!("../shapes/smoke.txt")),
    ("peers", include_str!("../shapes/peers.txt")),
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
