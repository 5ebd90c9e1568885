//! The transforms of F(2x2, 3x3), generic over the instruction set: channels are the lanes, so that each is a few sums and
//! differences of vectors.
//!
//! With `B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]`, `G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]` and
//! `A^T = [1 1 1 0; 0 1 -1 -1]`: `y = A^T [(G g G^T) * (B^T x B)] A`, where `*` is by elements (Lavin and Gray 2016, arXiv
//! 1509.09308, section 4.1). Factors are halves and ones: small integers stay exact.

use super::super::simd::Simd;
use super::{OUT, SIDE, TAPS};
use shardmark_tensor::Real;

/// Tiles in a row. Rows and columns of their 4x4 inputs, or 2x2 outputs, that do not exist count as zeros and are neither
/// read nor written; they are the same for all of the tiles.
pub(in super::super) struct Tiles<T> {
    /// First channel of the first tile's first position, which may be one that does not exist.
    pub at: *mut T,
    /// Elements from one position of a tile to the next along both axes.
    pub step: [usize; 2],
    /// First position that exists and first that does not any more, along both axes.
    pub exist: [[usize; 2]; 2],
    /// Channels.
    pub channels: usize,
    /// Tiles.
    pub count: usize,
    /// Elements from one tile to the next.
    pub next: usize,
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
    /// Whether outputs are stored past the caches; a fence must follow.
    pub stream: bool,
}

impl<T> Tiles<T> {
    /// Whether all `side` x `side` positions exist.
    fn whole(&self, side: usize) -> bool {
        self.exist == [[0, side]; 2]
    }

    /// Elements from the first position to `[h, w]`; the axes are H and W, or D and H.
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

impl<T: Real> Tiles<T> {
    /// A vector of the position `[h, w]` of the tile at `at`, `n` channels from `c` on; zero where the position does not exist.
    ///
    /// # Safety
    /// The CPU has S; positions that exist lie inside their array, and all do if they are `whole`.
    #[inline(always)]
    unsafe fn load<S: Simd<T = T>>(&self, at: *const T, whole: bool, [h, w]: [usize; 2], [c, n]: [usize; 2]) -> S::V {
        let from = at.wrapping_add(self.offset(h, w) + c);
        // SAFETY: by this function's contract.
        unsafe {
            if whole && n == S::LANES {
                S::load(from)
            } else if self.exists(h, w) {
                S::load_first(from, n)
            } else {
                S::zero()
            }
        }
    }
}

/// Writes row `h` of the points at `points`, `step` elements from one point to the next.
///
/// # Safety
/// The CPU has S; points have room for whole vectors.
#[inline(always)]
unsafe fn put_row<S: Simd>(row: [S::V; SIDE], points: *mut S::T, step: usize, h: usize) {
    for w in 0..SIDE {
        // SAFETY: by this function's contract.
        unsafe { S::store(points.add((h * SIDE + w) * step), row[w]) };
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
unsafe fn filter<S: Simd>([a, b, c]: [S::V; TAPS], half: S::V) -> [S::V; SIDE] {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let (outer, inner) = (S::mul(S::add(a, c), half), S::mul(b, half));
        [a, S::add(outer, inner), S::sub(outer, inner), c]
    }
}

/// `G^T u` of a column.
#[inline(always)]
unsafe fn filter_gradient<S: Simd>([a, b, c, d]: [S::V; SIDE], half: S::V) -> [S::V; TAPS] {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let both = S::mul(S::add(b, c), half);
        [S::add(a, both), S::mul(S::sub(b, c), half), S::add(both, d)]
    }
}

/// Writes `B^T x B` of tiles of inputs; lanes beyond the last channel are zero.
///
/// # Safety
/// The CPU has S; positions that exist lie inside their array, and points have room for whole vectors.
#[inline(always)]
pub(in super::super) unsafe fn transform_inputs<S: Simd>(t: &Tiles<S::T>) {
    let whole = t.whole(SIDE);
    // SAFETY: by this function's contract.
    unsafe {
        for tile in 0..t.count {
            let at = t.at.wrapping_add(tile * t.next);
            let mut c = 0;
            while c < t.channels {
                let n = (t.channels - c).min(S::LANES);
                let points = t.points.add(tile * t.tile_step + c);
                let mut x = [[S::zero(); SIDE]; SIDE];
                for h in 0..SIDE {
                    for w in 0..SIDE {
                        x[h][w] = t.load::<S>(at, whole, [h, w], [c, n]);
                    }
                }
                for w in 0..SIDE {
                    let column = inputs::<S>([x[0][w], x[1][w], x[2][w], x[3][w]]);
                    for h in 0..SIDE {
                        x[h][w] = column[h];
                    }
                }
                for h in 0..SIDE {
                    put_row::<S>(inputs::<S>(x[h]), points, t.point_step, h);
                }
                c += S::LANES;
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
    let whole = t.whole(OUT);
    // SAFETY: by this function's contract.
    unsafe {
        let slope = S::splat(&t.slope);
        for tile in 0..t.count {
            let at = t.at.wrapping_add(tile * t.next);
            let mut c = 0;
            while c < t.channels {
                let n = (t.channels - c).min(S::LANES);
                let points = t.points.add(tile * t.tile_step + c);
                let start = S::load(t.start.add(c));
                let mut sums = [[S::zero(); SIDE]; OUT];
                for w in 0..SIDE {
                    let mut m = [S::zero(); SIDE];
                    for h in 0..SIDE {
                        m[h] = S::load(points.add((h * SIDE + w) * t.point_step));
                    }
                    let column = outputs::<S>(m);
                    sums[0][w] = column[0];
                    sums[1][w] = column[1];
                }
                for h in 0..OUT {
                    let row = outputs::<S>(sums[h]);
                    for w in 0..OUT {
                        let sum = S::add(start, row[w]);
                        let y = S::max(sum, S::mul(sum, slope));
                        let to = at.wrapping_add(t.offset(h, w) + c);
                        if whole && n == S::LANES {
                            if t.stream { S::stream(to, y) } else { S::store(to, y) }
                        } else if t.exists(h, w) {
                            S::store_first(to, y, n);
                        }
                    }
                }
                c += S::LANES;
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
    let whole = t.whole(OUT);
    // SAFETY: by this function's contract.
    unsafe {
        for tile in 0..t.count {
            let at = t.at.wrapping_add(tile * t.next);
            let mut c = 0;
            while c < t.channels {
                let n = (t.channels - c).min(S::LANES);
                let points = t.points.add(tile * t.tile_step + c);
                let mut rows = [[S::zero(); OUT]; SIDE];
                for w in 0..OUT {
                    let mut dy = [S::zero(); OUT];
                    for h in 0..OUT {
                        dy[h] = t.load::<S>(at, whole, [h, w], [c, n]);
                    }
                    let column = gradients::<S>(dy);
                    for h in 0..SIDE {
                        rows[h][w] = column[h];
                    }
                }
                for h in 0..SIDE {
                    put_row::<S>(gradients::<S>(rows[h]), points, t.point_step, h);
                }
                c += S::LANES;
            }
        }
    }
}

/// Filters in rows of adjoining ones.
pub(in super::super) struct Filters<T> {
    /// The first tap of the first.
    pub taps: *mut T,
    /// Elements from one tap to the next, and from one row to the next there.
    pub tap_steps: [usize; 2],
    /// The first point of the first.
    pub points: *mut T,
    /// Elements from one point to the next, and from one row to the next there.
    pub point_steps: [usize; 2],
    /// Elements from one set of points to the next, which is added to it; sets.
    pub sets: [usize; 2],
    /// Filters of a row.
    pub len: usize,
    /// Rows.
    pub rows: usize,
}

/// Writes the points `G g G^T` of filters, whose rows are whole vectors.
///
/// # Safety
/// The CPU has S; every position lies inside its array.
#[inline(always)]
pub(in super::super) unsafe fn transform_filters<S: Simd>(f: &Filters<S::T>) {
    let ([tap_step, tap_row], [point_step, point_row]) = (f.tap_steps, f.point_steps);
    // SAFETY: by this function's contract.
    unsafe {
        let half = S::splat(&<S::T as Real>::from_f64(0.5));
        for row in 0..f.rows {
            let mut i = 0;
            while i < f.len {
                let mut rows = [[S::zero(); TAPS]; SIDE];
                for w in 0..TAPS {
                    let mut g = [S::zero(); TAPS];
                    for h in 0..TAPS {
                        g[h] = S::load(f.taps.add(row * tap_row + i + (h * TAPS + w) * tap_step));
                    }
                    let column = filter::<S>(g, half);
                    for h in 0..SIDE {
                        rows[h][w] = column[h];
                    }
                }
                for h in 0..SIDE {
                    put_row::<S>(filter::<S>(rows[h], half), f.points.add(row * point_row + i), point_step, h);
                }
                i += S::LANES;
            }
        }
    }
}

/// Writes the gradients `G^T u G` of filters, of which the points are the sums of all sets.
///
/// # Safety
/// As for [`transform_filters`]; rows of points have room for whole vectors.
#[inline(always)]
pub(in super::super) unsafe fn transform_filter_gradients<S: Simd>(f: &Filters<S::T>) {
    let ([tap_step, tap_row], [point_step, point_row], [set_step, sets]) = (f.tap_steps, f.point_steps, f.sets);
    // SAFETY: by this function's contract.
    unsafe {
        let half = S::splat(&<S::T as Real>::from_f64(0.5));
        for row in 0..f.rows {
            let mut i = 0;
            while i < f.len {
                let mut u = [[S::zero(); SIDE]; SIDE];
                for set in 0..sets {
                    for h in 0..SIDE {
                        for w in 0..SIDE {
                            let point = (h * SIDE + w) * point_step;
                            let from = f.points.add(set * set_step + point + row * point_row + i);
                            u[h][w] = S::add(u[h][w], S::load(from));
                        }
                    }
                }
                let mut rows = [[S::zero(); SIDE]; TAPS];
                for w in 0..SIDE {
                    let column = filter_gradient::<S>([u[0][w], u[1][w], u[2][w], u[3][w]], half);
                    for h in 0..TAPS {
                        rows[h][w] = column[h];
                    }
                }
                let tail = (f.len - i).min(S::LANES);
                for h in 0..TAPS {
                    let taps = filter_gradient::<S>(rows[h], half);
                    for w in 0..TAPS {
                        S::store_first(f.taps.add(row * tap_row + i + (h * TAPS + w) * tap_step), taps[w], tail);
                    }
                }
                i += S::LANES;
            }
        }
    }
}
