//! Dropout on slices.

use crate::Float;
use crate::simd::multiversion;
use shardmark_tensor::rng;

/// The mask of one layer in one step.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    /// Seed of the step.
    key: u64,
    layer: u64,
    keep: f64,
}

impl Mask {
    pub(super) fn new(seed: u64, layer: u64, step: u64, keep: f64) -> Self {
        Mask { key: rng::bits(seed, layer, step), layer, keep }
    }
}

multiversion! {
    /// `y = x * mask / keep` for adjoining elements, the first of which has the global index `first`.
    pub(super) fn apply<T: Float>(mask: Mask, first: u64, x: &[T], y: &mut [T]) {
        let scale = T::from_f64(1.0 / mask.keep);
        for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
            let kept = rng::uniform(mask.key, mask.layer, first + i as u64) < mask.keep;
            *y = if kept { x * scale } else { T::ZERO };
        }
    }
}
