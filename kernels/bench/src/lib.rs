//! The registry of layer shapes, and what it takes to time a layer: its data, the machine's multiply-add peak and memory
//! bandwidth, and a server that runs a case when it is asked to.
//!
//! A shape is one problem line, which is also its label. `kernel`, `stride` and `pad` hold one value for all dimensions
//! or one for each (`3x1x1`); a padding `0:1` is none before and one after.
//!
//! ```text
//! conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1              conv2d, and conv_transpose2d|3d, alike; no bias
//! dense n=1024 c=1024 k=4096                                            with bias
//! pool_avg3d n=1 c=16 in=128x128x128 kernel=3 stride=2 pad=1            pool_max3d, pool_avg2d, pool_max2d alike
//! batch_norm n=1 c=16 in=128x128x128                                    leaky_relu alike
//! adam len=1000000                                                      sgd alike
//! ```
//!
//! `first` after a convolution or a dense layer says that it reads the network's input: it has no data gradient.
//!
//! Files hold lines by role: `smoke` (tests: every layer and path, small), `peers` (convolutions and dense layers that
//! `ci/peers` compares with PyTorch), `memory` (layers that move more than they compute, compared too), `paper` (published),
//! `tails` (sizes that fill no vector, tile or cache block).

mod case;
mod fields;
mod pass;
pub mod peak;
mod problem;
pub mod server;
pub mod stream;
mod transposed;

#[cfg(test)]
mod tests;

pub use case::Case;
pub use fields::{Fields, ProblemError};
pub use pass::{Amount, Pass};
pub use problem::{Problem, Work};

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
