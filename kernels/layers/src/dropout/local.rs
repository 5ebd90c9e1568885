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
    /// What the upper 53 bits of a kept element's random number stay below.
    limit: u64,
    /// `1 / keep`.
    scale: f64,
}

impl Mask {
    pub(super) fn new(seed: u64, layer: u64, step: u64, keep: f64) -> Self {
        // Exact: a product with a power of two; an integer is below `keep * 2^53` if and only if it is below its ceiling.
        let limit = (keep * (1u64 << 53) as f64).ceil() as u64;
        Mask { key: rng::bits(seed, layer, step), layer, limit, scale: 1.0 / keep }
    }
}

multiversion! {
    /// `y = y * mask / keep` for adjoining elements, the first of which has the global index `first`.
    pub(super) fn apply<T: Float>(mask: Mask, first: u64, y: &mut [T]) {
        let scale = T::from_f64(mask.scale);
        for (i, y) in y.iter_mut().enumerate() {
            let kept = rng::bits(mask.key, mask.layer, first + i as u64) >> 11 < mask.limit;
            *y = if kept { *y * scale } else { T::ZERO };
        }
    }
}
