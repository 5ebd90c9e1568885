//! The register-blocked inner kernels, generic over the instruction set.
//!
//! `gather` (forward, and data gradient with flipped weights): SEGS*PER outputs x VECS vectors of output channels stay
//! in registers while the reduction runs; a step loads VECS weight vectors and broadcasts one input per output.
//! `gather_taps` is the same for one vector of output channels and TAPS taps along W at stride 1: there, a broadcast
//! input serves the TAPS outputs that read it, since one load for one multiply-add would bind the kernel to the loads.
//!
//! Channels are last, so that the inputs `x[w*stride .. +KW, 0..C]` of an output are one contiguous run: few input
//! channels need no kernel of their own.

use super::pack::CACHE_LINE;
use super::simd::Simd;
use crate::simd::{prefetch, prefetch_second};
use shardmark_tensor::Real;

/// Most segments of a `gather` tile.
pub(super) const MAX_SEGS: usize = 7;

/// A contiguous run of the reduction: the inputs at `offset .. offset + len` from an output's first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub offset: usize,
    pub len: usize,
}

/// Up to `MAX_SEGS` outputs' positions; a segment is PER outputs a constant step apart.
pub(super) struct GatherTile<'a, T> {
    /// First input of each segment's first output.
    pub x: [*const T; MAX_SEGS],
    /// First output channel of each segment's first output.
    pub y: [*mut T; MAX_SEGS],
    /// Outputs before this one belong to another segment and are not written.
    pub from: [usize; MAX_SEGS],
    /// Elements of x from one output of a segment to the next.
    pub x_step: usize,
    /// Elements of x from an output to its like in the tile that comes next, whose inputs are asked for in the second-level
    /// cache.
    pub next: isize,
    /// The same of y.
    pub y_step: usize,
    /// The reduction.
    pub pieces: &'a [Piece],
    /// Weights `[reduction][VECS * LANES]`.
    pub weights: *const T,
    /// Start values `[VECS * LANES]`, or null to go on from `sums`.
    pub start: *const T,
    /// Sums over the slices so far `[SEGS * PER][VECS * LANES]`: strided outputs would fall into few sets of the caches.
    pub sums: *mut T,
    /// Whether the sums are complete and go to y, not to `sums`.
    pub last: bool,
    /// Weights that are needed soon, to be asked for in the second-level cache: those from here on ...
    pub ahead: *const T,
    /// ... so many further with each few elements of the reduction.
    pub ahead_step: usize,
    /// Channels of the last vector that exist.
    pub tail: usize,
    /// Results below zero are multiplied by it; at most 1.
    pub slope: T,
    /// Whether all results are written as they are: full vectors, no output left out, slope 1.
    pub plain: bool,
    /// Whether such are stored past the caches; a fence must follow.
    pub stream: bool,
}

impl<T: Real> GatherTile<'_, T> {
    /// A tile without inputs, weights and places for results, which are filled in before it is computed.
    pub fn blank(x: *const T, x_step: usize, ahead_step: usize, tail: usize) -> Self {
        GatherTile {
            x: [x; MAX_SEGS],
            y: [std::ptr::null_mut(); MAX_SEGS],
            from: [0; MAX_SEGS],
            x_step,
            next: 0,
            y_step: 0,
            pieces: &[],
            weights: std::ptr::null(),
            start: std::ptr::null(),
            sums: std::ptr::null_mut(),
            last: false,
            ahead: std::ptr::null(),
            ahead_step,
            tail,
            slope: T::ONE,
            plain: false,
            stream: false,
        }
    }
}

/// Computes one tile.
///
/// # Safety
/// The CPU has S; every position that the tile describes lies inside its array.
#[inline(always)]
pub(super) unsafe fn gather<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(t: &GatherTile<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut acc = start::<S, SEGS, PER, VECS>(t);
        let x: [*const S::T; SEGS] = std::array::from_fn(|s| t.x[s]);
        let (mut w, mut asked) = (t.weights, 0);
        for piece in t.pieces {
            let mut at: [usize; PER] = std::array::from_fn(|p| piece.offset + p * t.x_step);
            for _ in 0..piece.len / UNROLLED {
                if asked % (CACHE_LINE / S::T::BYTES / UNROLLED) == 0 {
                    x.iter().for_each(|x| at.iter().for_each(|&at| ask_next(t, x.wrapping_add(at))));
                }
                ask::<S, SEGS, PER, VECS>(t, &mut asked);
                for u in 0..UNROLLED {
                    step::<S, SEGS, PER, VECS>(&mut acc, |s, p| x[s].add(at[p]).add(u), w.add(u * VECS * S::LANES));
                }
                w = w.add(UNROLLED * VECS * S::LANES);
                at = at.map(|at| S::hide(at + UNROLLED));
            }
            for _ in 0..piece.len % UNROLLED {
                step::<S, SEGS, PER, VECS>(&mut acc, |s, p| x[s].add(at[p]), w);
                w = w.add(VECS * S::LANES);
                at = at.map(|at| S::hide(at + 1));
            }
        }
        finish::<S, SEGS, PER, VECS>(t, acc);
    }
}

/// The same for inputs that were copied to `x[0]`, as `[reduction][SEGS * PER]`.
///
/// # Safety
/// As for [`gather`].
#[inline(always)]
pub(super) unsafe fn gather_copied<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(
    t: &GatherTile<S::T>,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut acc = start::<S, SEGS, PER, VECS>(t);
        let (mut x, mut w, mut asked) = (t.x[0], t.weights, 0);
        for piece in t.pieces {
            for _ in 0..piece.len / UNROLLED {
                ask::<S, SEGS, PER, VECS>(t, &mut asked);
                for u in 0..UNROLLED {
                    let x = x.add(u * SEGS * PER);
                    step::<S, SEGS, PER, VECS>(&mut acc, |s, p| x.add(s * PER + p), w.add(u * VECS * S::LANES));
                }
                w = w.add(UNROLLED * VECS * S::LANES);
                x = S::hide_pointer(x.add(UNROLLED * SEGS * PER));
            }
            for _ in 0..piece.len % UNROLLED {
                step::<S, SEGS, PER, VECS>(&mut acc, |s, p| x.add(s * PER + p), w);
                w = w.add(VECS * S::LANES);
                x = S::hide_pointer(x.add(SEGS * PER));
            }
        }
        finish::<S, SEGS, PER, VECS>(t, acc);
    }
}

/// Elements of the reduction that `gather` takes at once: their addresses differ by constants.
pub(super) const UNROLLED: usize = 4;

/// Asks for the next tile's inputs in place of those at `x`: a tile reads short stretches of many outputs, and the hardware
/// has just seen where one goes when it ends.
#[inline(always)]
fn ask_next<T>(t: &GatherTile<T>, x: *const T) {
    prefetch_second(x.wrapping_offset(t.next));
}

/// Asks for the outputs of the next segment after `asked`, and for weights that are needed soon: they arrive in the
/// caches while the sums are computed, a few at a time, or they would hold up the inputs.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn ask<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(
    t: &GatherTile<S::T>,
    asked: &mut usize,
) {
    prefetch_second(t.ahead.wrapping_add(*asked * t.ahead_step));
    if t.last && !(t.plain && t.stream) && *asked < SEGS {
        for p in 0..PER {
            for v in 0..VECS {
                prefetch(t.y[*asked].wrapping_add(p * t.y_step + v * S::LANES));
            }
        }
    }
    *asked += 1;
}

/// Adds an element of the reduction to the sums of a `gather` tile; `at(segment, output)` is where its inputs are.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn step<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(
    acc: &mut [[[S::V; VECS]; PER]; SEGS],
    at: impl Fn(usize, usize) -> *const S::T,
    w: *const S::T,
) {
    // SAFETY: by this function's contract.
    unsafe {
        let weights: [S::V; VECS] = std::array::from_fn(|v| S::load(w.add(v * S::LANES)));
        for s in 0..SEGS {
            for p in 0..PER {
                let x = S::splat(at(s, p));
                for v in 0..VECS {
                    acc[s][p][v] = S::mul_add(x, weights[v], acc[s][p][v]);
                }
            }
        }
    }
}

/// Taps along W of `gather_taps`.
pub(super) const TAPS: usize = 3;

/// Whether a block of `vecs` vectors of output channels takes all of `taps` taps for an input at once: with one vector, an
/// input that is loaded would else serve a single multiply-add.
pub(super) fn by_taps(vecs: usize, taps: usize) -> bool {
    vecs == 1 && taps == TAPS
}

/// Computes one tile of one vector of output channels; a piece is a run of input channels of the first tap, and weights
/// are `[reduction][TAPS][LANES]`.
///
/// # Safety
/// The CPU has S; every position that the tile describes, and TAPS - 1 steps of x beyond, lies inside its array.
#[inline(always)]
pub(super) unsafe fn gather_taps<S: Simd, const SEGS: usize, const PER: usize>(t: &GatherTile<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut acc = start::<S, SEGS, PER, 1>(t);
        let mut w = t.weights;
        let step: [usize; MAX_TAP_INPUTS] = std::array::from_fn(|i| S::hide(i * t.x_step));
        for piece in t.pieces {
            let mut x: [*const S::T; SEGS] = std::array::from_fn(|s| t.x[s].add(piece.offset));
            for _ in 0..piece.len {
                let weights: [S::V; TAPS] = std::array::from_fn(|tap| S::load(w.add(tap * S::LANES)));
                for s in 0..SEGS {
                    for i in 0..PER + TAPS - 1 {
                        let x = S::splat(x[s].add(step[i]));
                        for tap in 0..TAPS {
                            if tap <= i && i < tap + PER {
                                acc[s][i - tap][0] = S::mul_add(x, weights[tap], acc[s][i - tap][0]);
                            }
                        }
                    }
                    x[s] = S::hide_pointer(x[s].add(1));
                }
                w = w.add(TAPS * S::LANES);
            }
        }
        finish::<S, SEGS, PER, 1>(t, acc);
    }
}

/// Outputs of a long segment of `gather_taps`.
pub(super) const LONG: usize = 8;
/// Inputs that they read along W.
const MAX_TAP_INPUTS: usize = LONG + TAPS - 1;

/// Start values of a tile's sums.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn start<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(
    t: &GatherTile<S::T>,
) -> [[[S::V; VECS]; PER]; SEGS] {
    // SAFETY: by this function's contract.
    unsafe {
        if t.start.is_null() {
            let sums = |i: usize| S::load(t.sums.add(i * S::LANES));
            return std::array::from_fn(|s| {
                std::array::from_fn(|p| std::array::from_fn(|v| sums((s * PER + p) * VECS + v)))
            });
        }
        let start: [S::V; VECS] = std::array::from_fn(|v| S::load(t.start.add(v * S::LANES)));
        [[start; PER]; SEGS]
    }
}

/// Writes a tile's sums: `max(sum, slope * sum)`.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn finish<S: Simd, const SEGS: usize, const PER: usize, const VECS: usize>(
    t: &GatherTile<S::T>,
    acc: [[[S::V; VECS]; PER]; SEGS],
) {
    // SAFETY: by this function's contract.
    unsafe {
        if !t.last {
            for (i, &sum) in acc.as_flattened().as_flattened().iter().enumerate() {
                S::store(t.sums.add(i * S::LANES), sum);
            }
            return;
        }
        if t.plain {
            for s in 0..SEGS {
                for p in 0..PER {
                    for v in 0..VECS {
                        let to = t.y[s].add(p * t.y_step + v * S::LANES);
                        if t.stream { S::stream(to, acc[s][p][v]) } else { S::store(to, acc[s][p][v]) }
                    }
                }
            }
            return;
        }
        let slope = S::splat(&t.slope);
        for s in 0..SEGS {
            for p in 0..PER {
                if p >= t.from[s] {
                    let sums = acc[s][p].map(|sum| S::max(sum, S::mul(sum, slope)));
                    store_channels::<S, VECS>(t.y[s].add(p * t.y_step), sums, t.tail);
                }
            }
        }
    }
}

/// VECS vectors of channels, the last with `tail` channels.
#[inline(always)]
pub(super) unsafe fn load_channels<S: Simd, const VECS: usize>(p: *const S::T, tail: usize) -> [S::V; VECS] {
    // SAFETY: the caller vouches for the channels.
    std::array::from_fn(|v| unsafe {
        let p = p.add(v * S::LANES);
        if v + 1 < VECS { S::load(p) } else { S::load_first(p, tail) }
    })
}

/// The same, written.
#[inline(always)]
pub(super) unsafe fn store_channels<S: Simd, const VECS: usize>(p: *mut S::T, values: [S::V; VECS], tail: usize) {
    for v in 0..VECS {
        // SAFETY: the caller vouches for the channels.
        unsafe {
            let p = p.add(v * S::LANES);
            if v + 1 < VECS { S::store(p, values[v]) } else { S::store_first(p, values[v], tail) }
        }
    }
}
