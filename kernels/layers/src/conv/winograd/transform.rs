//! The transforms of F(2x2, 3x3), generic over the instruction set: channels are the lanes, so that each is a few sums and
//! differences of vectors.
//!
//! With `B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]`, `G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]` and
//! `A^T = [1 1 1 0; 0 1 -1 -1]`: `y = A^T [(G g G^T) * (B^T x B)] A`, where `*` is by elements (Lavin and Gray 2016, arXiv
//! 1509.09308, section 4.1). Factors are halves and ones: small integers stay exact.

use super::super::simd::Simd;
use super::{OUT, POINTS, SIDE};

/// Tiles side by side along W. Rows and columns of their 4x4 inputs, or 2x2 outputs, that do not exist count as zeros and
/// are neither read nor written; only a single tile has such.
pub(in super::super) struct Tiles<T> {
    /// First channel of the first tile's first position, which may be one that does not exist.
    pub at: *mut T,
    /// Elements from one position to the next along H and W.
    pub step: [usize; 2],
    /// First position that exists and first that does not any more, along H and W.
    pub exist: [[usize; 2]; 2],
    /// Channels.
    pub channels: usize,
    /// Tiles.
    pub count: usize,
    /// First channel of the first tile's first point.
    pub points: *mut T,
    /// Elements from one point to the next.
    pub point_step: usize,
    /// Elements from one tile to the next there.
    pub tile_step: usize,
    /// Start values of outputs `[channels]`.
    pub start: *const T,
    /// Outputs below zero are multiplied by it; at most 1.
    pub slope: T,
}

impl<T> Tiles<T> {
    /// Whether all `side` x `side` positions exist.
    fn whole(&self, side: usize) -> bool {
        self.exist == [[0, side]; 2]
    }

    /// Element of the position `[h, w]`.
    #[inline(always)]
    fn offset(&self, h: usize, w: usize) -> usize {
        h * self.step[0] + w * self.step[1]
    }

    #[inline(always)]
    fn exists(&self, h: usize, w: usize) -> bool {
        let [rows, columns] = self.exist;
        (rows[0]..rows[1]).contains(&h) && (columns[0]..columns[1]).contains(&w)
    }
}

/// `B^T x` of a column.
#[inline(always)]
unsafe fn inputs<S: Simd>([a, b, c, d]: [S::V; SIDE]) -> [S::V; SIDE] {
    // SAFETY: the caller vouches for the CPU.
    unsafe { [S::sub(a, c), S::add(b, c), S::sub(c, b), S::sub(b, d)] }
}

/// `A^T m` of a column.
#[inline(always)]
unsafe fn outputs<S: Simd>([a, b, c, d]: [S::V; SIDE]) -> [S::V; OUT] {
    // SAFETY: the caller vouches for the CPU.
    unsafe { [S::add(S::add(a, b), c), S::sub(S::sub(b, c), d)] }
}

/// `A dy` of a column.
#[inline(always)]
unsafe fn gradients<S: Simd>([a, b]: [S::V; OUT]) -> [S::V; SIDE] {
    // SAFETY: the caller vouches for the CPU.
    unsafe { [a, S::add(a, b), S::sub(a, b), S::sub(S::zero(), b)] }
}

/// `G g` of a column.
#[inline(always)]
unsafe fn filter<S: Simd>([a, b, c]: [S::V; 3], half: S::V) -> [S::V; SIDE] {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let (outer, inner) = (S::mul(S::add(a, c), half), S::mul(b, half));
        [a, S::add(outer, inner), S::sub(outer, inner), c]
    }
}

/// `G^T u` of a column.
#[inline(always)]
unsafe fn filter_gradient<S: Simd>([a, b, c, d]: [S::V; SIDE], half: S::V) -> [S::V; 3] {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let both = S::mul(S::add(b, c), half);
        [S::add(a, both), S::mul(S::sub(b, c), half), S::add(both, d)]
    }
}

/// Rows of columns to columns of rows.
#[inline(always)]
fn turned<V: Copy, const M: usize, const N: usize>(rows: [[V; N]; M]) -> [[V; M]; N] {
    std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
}

/// Writes `B^T x B` of tiles of inputs; lanes beyond the last channel are zero.
///
/// # Safety
/// The CPU has S; positions that exist lie inside their array, and points have room for whole vectors.
#[inline(always)]
pub(in super::super) unsafe fn transform_inputs<S: Simd>(t: &Tiles<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        if !t.whole(SIDE) {
            return input_tiles::<S>(t, |h, w, c, n| {
                if !t.exists(h, w) {
                    return S::zero();
                }
                S::load_first(t.at.wrapping_add(t.offset(h, w) + c), n)
            });
        }
        let rest = t.channels % S::LANES;
        for tile in 0..t.count {
            let at = t.at.add(tile * OUT * t.step[1]);
            let points = t.points.add(tile * t.tile_step);
            let mut c = 0;
            while c + S::LANES <= t.channels {
                let x = at.add(c);
                put_points::<S>(|h, w| S::load(x.add(t.offset(h, w))), points.add(c), t.point_step);
                c += S::LANES;
            }
            if rest > 0 {
                let x = at.add(c);
                put_points::<S>(|h, w| S::load_first(x.add(t.offset(h, w)), rest), points.add(c), t.point_step);
            }
        }
    }
}

/// The same of one tile whose inputs `load(h, w, channel, channels)` brings.
///
/// # Safety
/// As for [`transform_inputs`].
#[inline(always)]
unsafe fn input_tiles<S: Simd>(t: &Tiles<S::T>, load: impl Fn(usize, usize, usize, usize) -> S::V) {
    for c in (0..t.channels).step_by(S::LANES) {
        let n = (t.channels - c).min(S::LANES);
        // SAFETY: by this function's contract.
        unsafe { put_points::<S>(|h, w| load(h, w, c, n), t.points.add(c), t.point_step) }
    }
}

/// Writes the points of one vector of inputs.
///
/// # Safety
/// As for [`transform_inputs`].
#[inline(always)]
unsafe fn put_points<S: Simd>(load: impl Fn(usize, usize) -> S::V, points: *mut S::T, step: usize) {
    // SAFETY: by this function's contract.
    unsafe {
        let columns: [[S::V; SIDE]; SIDE] =
            std::array::from_fn(|w| inputs::<S>(std::array::from_fn(|h| load(h, w))));
        for (h, row) in turned(columns).into_iter().enumerate() {
            for (w, v) in inputs::<S>(row).into_iter().enumerate() {
                S::store(points.add((h * SIDE + w) * step), v);
            }
        }
    }
}

/// Writes the outputs `A^T m A` of tiles, from their start values on.
///
/// # Safety
/// As for [`transform_inputs`].
#[inline(always)]
pub(in super::super) unsafe fn transform_outputs<S: Simd>(t: &Tiles<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let slope = S::splat(&t.slope);
        let whole = t.whole(OUT);
        for tile in 0..t.count {
            let at = t.at.wrapping_add(tile * OUT * t.step[1]);
            for c in (0..t.channels).step_by(S::LANES) {
                let points = t.points.add(tile * t.tile_step + c);
                let start = S::load(t.start.add(c));
                let columns: [[S::V; OUT]; SIDE] = std::array::from_fn(|w| {
                    outputs::<S>(std::array::from_fn(|h| S::load(points.add((h * SIDE + w) * t.point_step))))
                });
                let n = (t.channels - c).min(S::LANES);
                for (h, row) in turned(columns).into_iter().enumerate() {
                    for (w, sum) in outputs::<S>(row).into_iter().enumerate() {
                        let sum = S::add(start, sum);
                        let y = S::max(sum, S::mul(sum, slope));
                        let to = at.wrapping_add(t.offset(h, w) + c);
                        if whole && n == S::LANES {
                            S::store(to, y);
                        } else if t.exists(h, w) {
                            S::store_first(to, y, n);
                        }
                    }
                }
            }
        }
    }
}

/// Writes `A dy A^T` of tiles of output gradients; lanes beyond the last channel are zero.
///
/// # Safety
/// As for [`transform_inputs`].
#[inline(always)]
pub(in super::super) unsafe fn transform_gradients<S: Simd>(t: &Tiles<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let whole = t.whole(OUT);
        for tile in 0..t.count {
            let at = t.at.wrapping_add(tile * OUT * t.step[1]);
            for c in (0..t.channels).step_by(S::LANES) {
                let n = (t.channels - c).min(S::LANES);
                let load = |h: usize, w: usize| {
                    let from = at.wrapping_add(t.offset(h, w) + c);
                    match (whole && n == S::LANES, t.exists(h, w)) {
                        (true, _) => S::load(from),
                        (_, true) => S::load_first(from, n),
                        _ => S::zero(),
                    }
                };
                let columns: [[S::V; SIDE]; OUT] =
                    std::array::from_fn(|w| gradients::<S>(std::array::from_fn(|h| load(h, w))));
                let points = t.points.add(tile * t.tile_step + c);
                for (h, row) in turned(columns).into_iter().enumerate() {
                    for (w, v) in gradients::<S>(row).into_iter().enumerate() {
                        S::store(points.add((h * SIDE + w) * t.point_step), v);
                    }
                }
            }
        }
    }
}

/// Filters side by side: whole vectors.
pub(in super::super) struct Filters<T> {
    /// Their first tap.
    pub taps: *mut T,
    /// Elements from one tap to the next.
    pub tap_step: usize,
    /// Their first point.
    pub points: *mut T,
    /// Elements from one point to the next.
    pub point_step: usize,
    /// Elements from one set of points to the next, which is added; sets.
    pub sets: [usize; 2],
    /// Number of filters.
    pub len: usize,
}

/// Writes the points `G g G^T` of filters, a multiple of LANES.
///
/// # Safety
/// The CPU has S; every position lies inside its array.
#[inline(always)]
pub(in super::super) unsafe fn transform_filters<S: Simd>(f: &Filters<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let half = S::splat(&<S::T as shardmark_tensor::Real>::from_f64(0.5));
        for i in (0..f.len).step_by(S::LANES) {
            let tap = |h: usize, w: usize| S::load(f.taps.add(i + (h * 3 + w) * f.tap_step));
            let columns: [[S::V; SIDE]; 3] =
                std::array::from_fn(|w| filter::<S>(std::array::from_fn(|h| tap(h, w)), half));
            for (h, row) in turned(columns).into_iter().enumerate() {
                for (w, v) in filter::<S>(row, half).into_iter().enumerate() {
                    S::store(f.points.add(i + (h * SIDE + w) * f.point_step), v);
                }
            }
        }
    }
}

/// Writes the gradients `G^T u G` of filters, of which the points are the sums of all sets.
///
/// # Safety
/// As for [`transform_filters`]; sets have room for whole vectors.
#[inline(always)]
pub(in super::super) unsafe fn transform_filter_gradients<S: Simd>(f: &Filters<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let half = S::splat(&<S::T as shardmark_tensor::Real>::from_f64(0.5));
        let [set_step, sets] = f.sets;
        for i in (0..f.len).step_by(S::LANES) {
            let mut points = [[S::zero(); SIDE]; SIDE];
            for set in 0..sets {
                for p in 0..POINTS {
                    let v = S::load(f.points.add(set * set_step + p * f.point_step + i));
                    let sum = &mut points[p % SIDE][p / SIDE];
                    *sum = S::add(*sum, v);
                }
            }
            let columns: [[S::V; 3]; SIDE] = std::array::from_fn(|w| filter_gradient::<S>(points[w], half));
            let tail = (f.len - i).min(S::LANES);
            for (h, row) in turned(columns).into_iter().enumerate() {
                for (w, v) in filter_gradient::<S>(row, half).into_iter().enumerate() {
                    S::store_first(f.taps.add(i + (h * 3 + w) * f.tap_step), v, tail);
                }
            }
        }
    }
}
