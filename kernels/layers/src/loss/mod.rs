//! Losses: mean squared and mean absolute error over all samples and features of the global batch.
//!
//! `mse = 1/M sum (p - t)^2`, `mae = 1/M sum |p - t|` with `M` = samples x features of the global batch, as PyTorch's
//! `MSELoss` and `L1Loss`. A rank adds up what it owns; the executor sums the f64 of the ranks and divides by `M` once.

mod local;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::Float;
use crate::lines::{line, line_len, lines};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// A loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Mean squared error.
    Mse,
    /// Mean absolute error.
    Mae,
}

impl Loss {
    /// The name as case lines have it.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Mse => "mse",
            Loss::Mae => "mae",
        }
    }

    /// Returns the sum of this rank's terms over `part` (not divided by `count`) and writes the gradient of the mean,
    /// which is divided by `count`, the number of values of the global batch. `part` lies inside all blocks; it may
    /// be empty.
    pub fn sum_and_gradient<T: Float>(
        self,
        pred: &Block<T>,
        target: &Block<T>,
        dpred: &mut Block<T>,
        part: &Region,
        count: usize,
    ) -> f64 {
        let mut sum = 0.0;
        let (pred_at, target_at, dpred_at, len) = (pred.layout(), target.layout(), dpred.layout(), line_len(part));
        for at in lines(part) {
            let (p, t) = (line(pred.data(), &pred_at, at, len), line(target.data(), &target_at, at, len));
            let dp = &mut dpred.data_mut()[dpred_at.offset(at)..][..len];
            sum += match self {
                Loss::Mse => local::mse(p, t, dp, count),
                Loss::Mae => local::mae(p, t, dp, count),
            };
        }
        sum
    }
}
