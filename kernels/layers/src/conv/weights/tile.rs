//! The inner kernel of the weight gradient: ROWS reduction elements x VECS vectors of output channels stay in registers while
//! it walks along outputs; a step loads VECS gradient vectors and broadcasts ROWS neighbouring inputs.

use super::super::pack::CACHE_LINE;
use super::super::simd::Simd;
use super::super::tile::{load_channels, store_channels};
use super::Line;
use crate::simd::{prefetch, prefetch_second};

/// A tile of the weight gradient.
pub(in super::super) struct WeightTile<'a, T> {
    /// The tile's first input of the output at offset 0.
    pub x: *const T,
    /// Elements of x from one output of a line to the next.
    pub x_step: usize,
    /// Lines of outputs.
    pub lines: &'a [Line],
    /// Their gradients `[outputs][VECS * LANES]`, in order.
    pub dy: *const T,
    /// The tile's first weight gradient.
    pub dw: *mut T,
    /// Elements of dw from one reduction element to the next.
    pub dw_step: usize,
    /// Channels of the last vector that exist.
    pub tail: usize,
    /// Whether to add to dw, or to overwrite it.
    pub add: bool,
    /// Addresses of memory that is needed soon, [`PIECE`] bytes each, to be asked for in the second-level cache meanwhile:
    /// a line of it for each output, or the requests would hold up the sums.
    pub ahead: &'a [usize],
}

/// Bytes of what is asked for ahead at an address.
pub(super) const PIECE: usize = CACHE_LINE * PIECE_LINES;
/// Its lines.
pub(super) const PIECE_LINES: usize = 16;

/// Outputs of which the inputs are asked for ahead: some tens of cycles, as the second-level cache needs.
const AHEAD: usize = 6;

/// Sums the contributions of some outputs to one tile of the weight gradient.
///
/// # Safety
/// The CPU has S; every position that the tile describes lies inside its array.
#[inline(always)]
pub(in super::super) unsafe fn weights<S: Simd, const ROWS: usize, const VECS: usize>(t: &WeightTile<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        // The gradient arrives in the cache while the sums are computed.
        for r in 0..ROWS {
            for v in 0..VECS {
                prefetch(t.dw.wrapping_add(r * t.dw_step + v * S::LANES));
            }
        }
        let mut acc = [[S::zero(); VECS]; ROWS];
        let mut dy = t.dy;
        let mut pairs = 0;
        for line in t.lines {
            let mut x = t.x.add(line.x);
            let mut left = line.len;
            // A line is never empty; a loop that tests first would keep two copies of the sums.
            loop {
                if let Some(&piece) = t.ahead.get(pairs / (PIECE_LINES / 2)) {
                    let at = piece + pairs % (PIECE_LINES / 2) * 2 * CACHE_LINE;
                    prefetch_second(std::ptr::without_provenance::<S::T>(at));
                    prefetch_second(std::ptr::without_provenance::<S::T>(at + CACHE_LINE));
                }
                pairs += 1;
                prefetch(x.wrapping_add(AHEAD * t.x_step));
                add_output::<S, ROWS, VECS>(&mut acc, x, dy);
                x = x.add(t.x_step);
                if left == 1 {
                    dy = dy.add(VECS * S::LANES);
                    break;
                }
                prefetch(x.wrapping_add(AHEAD * t.x_step));
                add_output::<S, ROWS, VECS>(&mut acc, x, dy.add(VECS * S::LANES));
                x = x.add(t.x_step);
                dy = dy.add(2 * VECS * S::LANES);
                left -= 2;
                if left == 0 {
                    break;
                }
            }
        }
        for r in 0..ROWS {
            let at = t.dw.add(r * t.dw_step);
            let mut sum = acc[r];
            if t.add {
                let before = load_channels::<S, VECS>(at, t.tail);
                sum = std::array::from_fn(|v| S::add(before[v], sum[v]));
            }
            store_channels::<S, VECS>(at, sum, t.tail);
        }
    }
}

/// Adds one output's products of inputs and gradients.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn add_output<S: Simd, const ROWS: usize, const VECS: usize>(
    acc: &mut [[S::V; VECS]; ROWS],
    x: *const S::T,
    dy: *const S::T,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let g: [S::V; VECS] = std::array::from_fn(|v| S::load(dy.add(v * S::LANES)));
        for r in 0..ROWS {
            let x = S::splat(x.add(r));
            for v in 0..VECS {
                acc[r][v] = S::mul_add(x, g[v], acc[r][v]);
            }
        }
    }
}
