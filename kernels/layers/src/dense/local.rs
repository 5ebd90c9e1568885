//! Dense kernels on few rows: `x: [R, C]`, `y: [R, K]`, `weight: [K, C]`, each over the weight once. A team shares the
//! output features, or the input features of the data gradient.

use crate::Float;
use crate::simd::{STRIP, multiversion, prefetch_next, strip};
use shardmark_host::{SharedMut, Team};
use std::ops::Range;

/// Rows that are worked on together, so that what they share is loaded less often.
const ROWS: usize = 4;
/// Weights that are worth a part of their own.
const PART: usize = 1 << 16;
/// Input features of the narrowest part: some cache lines of each output's weights, or memory does not keep up.
const WIDE: usize = 256;
/// Columns that are summed together.
const COLUMNS: usize = 16;

/// Calls `work` with ranges of `0..count`, each worth about `PART` weights of the `len` in all, in at most `most` parts.
fn share(team: &Team, count: usize, len: usize, most: usize, work: impl Fn(Range<usize>) + Sync) {
    let parts = (len / PART).min(most).clamp(1, count.max(1));
    team.run(parts, |_, part| work(part * count / parts..(part + 1) * count / parts));
}

/// `y = x weight^T + bias`; an empty bias adds nothing.
pub(super) fn forward<T: Float>(team: &Team, weight: &[T], bias: &[T], c: usize, x: &[T], y: &mut [T]) {
    let k = weight.len() / c;
    let y = SharedMut::new(y);
    share(team, k, weight.len(), k, |outputs| features(weight, bias, c, x, outputs, &y));
}

multiversion! {
    /// Some output features of all rows; nobody else writes them.
    fn features<T: Float>(
        weight: &[T], bias: &[T], c: usize, x: &[T], outputs: Range<usize>, y: &SharedMut<T>,
    ) {
        let (k, rows) = (weight.len() / c, x.len() / c);
        for o in outputs {
            let (weight, bias) = (&weight[o * c..(o + 1) * c], bias.get(o).copied().unwrap_or(T::ZERO));
            let mut row = 0;
            while row < rows {
                let x = &x[row * c..];
                let mut write = |r: usize, value: T| {
                    let at = (row + r) * k + o;
                    // SAFETY: this call alone writes this feature.
                    unsafe { y.part(at..at + 1).fill(value) };
                };
                row += match rows - row {
                    ROWS.. => dots::<T, ROWS>(weight, bias, x, &mut write),
                    2.. => dots::<T, 2>(weight, bias, x, &mut write),
                    _ => dots::<T, 1>(weight, bias, x, &mut write),
                };
            }
        }
    }
}

/// Dot products of `weight` with the first `R` rows of `x`, plus `bias`, each given to `write`; returns `R`.
/// Each is added up in the same order for every `R`: what a sample gives does not depend on its neighbours.
#[inline(always)]
fn dots<T: Float, const R: usize>(weight: &[T], bias: T, x: &[T], write: &mut impl FnMut(usize, T)) -> usize {
    let c = weight.len();
    let x: [&[T]; R] = std::array::from_fn(|r| &x[r * c..(r + 1) * c]);
    let mut lanes = [[T::ZERO; STRIP]; R];
    let strips = c / STRIP * STRIP;
    for at in (0..strips).step_by(STRIP) {
        let w = strip::<T, STRIP>(&weight[at..]);
        for r in 0..R {
            let x = strip::<T, STRIP>(&x[r][at..]);
            for i in 0..STRIP {
                lanes[r][i] += w[i] * x[i];
            }
        }
    }
    for r in 0..R {
        let rest = (strips..c).fold(T::ZERO, |sum, i| sum + weight[i] * x[r][i]);
        write(r, rest + sum(&lanes[r]) + bias);
    }
    R
}

/// Sum of the lanes, by halves.
///
/// Not inlined: seen together with the loop that fills the lanes, its last halves make the compiler keep that loop in
/// vectors of two.
#[inline(never)]
fn sum<T: Float>(lanes: &[T; STRIP]) -> T {
    let mut lanes = *lanes;
    let mut width = STRIP;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

/// `dx = dy weight`.
pub(super) fn backward_data<T: Float>(team: &Team, weight: &[T], c: usize, dy: &[T], dx: &mut [T]) {
    let dx = SharedMut::new(dx);
    share(team, c, weight.len(), c / WIDE, |inputs| input_gradients(weight, c, dy, inputs, &dx));
}

multiversion! {
    /// Some input features of all rows; nobody else writes them.
    fn input_gradients<T: Float>(weight: &[T], c: usize, dy: &[T], inputs: Range<usize>, dx: &SharedMut<T>) {
        let k = weight.len() / c;
        let rows = || dy.chunks_exact(k).enumerate().map(|(row, dy)| {
            // SAFETY: this call alone writes these features.
            (dy, unsafe { dx.part(row * c + inputs.start..row * c + inputs.end) })
        });
        rows().for_each(|(_, dx)| dx.fill(T::ZERO));
        let joined = k / ROWS * ROWS;
        let of = |o: usize| &weight[o * c + inputs.start..o * c + inputs.end];
        for o in (0..joined).step_by(ROWS) {
            let [a, b, d, e]: [&[T]; ROWS] = std::array::from_fn(|i| of(o + i));
            for (dy, dx) in rows() {
                let [ya, yb, yd, ye] = strip::<T, ROWS>(&dy[o..]);
                for i in 0..dx.len() {
                    dx[i] += (ya * a[i] + yb * b[i]) + (yd * d[i] + ye * e[i]);
                }
            }
        }
        for o in joined..k {
            for (dy, dx) in rows() {
                let dy = dy[o];
                dx.iter_mut().zip(of(o)).for_each(|(dx, &w)| *dx += dy * w);
            }
        }
    }
}

/// `dweight = dy^T x`; zero without rows.
pub(super) fn weight_gradient<T: Float>(team: &Team, c: usize, k: usize, x: &[T], dy: &[T], dweight: &mut [T]) {
    let len = dweight.len();
    let dweight = SharedMut::new(dweight);
    share(team, k, len, k, |outputs| {
        // SAFETY: every output feature has its own gradients.
        let own = unsafe { dweight.part(outputs.start * c..outputs.end * c) };
        weight_gradients(c, k, x, dy, outputs, own);
    });
}

multiversion! {
    /// Gradients of the weights of some output features: each is written once.
    fn weight_gradients<T: Float>(c: usize, k: usize, x: &[T], dy: &[T], outputs: Range<usize>, dweight: &mut [T]) {
        let rows = x.len() / c;
        if rows == 0 {
            return dweight.fill(T::ZERO);
        }
        for (o, dw) in outputs.zip(dweight.chunks_exact_mut(c)) {
            let strips = c / STRIP * STRIP;
            for at in (0..strips).step_by(STRIP) {
                let dw = &mut dw[at..at + STRIP];
                prefetch_next(dw);
                dw.copy_from_slice(&product::<T, STRIP>(rows, &x[at..], c, &dy[o..], k));
            }
            for (i, dw) in dw.iter_mut().enumerate().skip(strips) {
                [*dw] = product::<T, 1>(rows, &x[i..], c, &dy[o..], k);
            }
        }
    }
}

/// `sum over the rows of dy[r * k] * x[r * c ..][..L]`, by fours.
#[inline(always)]
fn product<T: Float, const L: usize>(rows: usize, x: &[T], c: usize, dy: &[T], k: usize) -> [T; L] {
    let mut sum = [T::ZERO; L];
    let joined = rows / ROWS * ROWS;
    for row in (0..joined).step_by(ROWS) {
        let [a, b, d, e] = std::array::from_fn(|i| strip::<T, L>(&x[(row + i) * c..]));
        let [ya, yb, yd, ye]: [T; ROWS] = std::array::from_fn(|i| dy[(row + i) * k]);
        for i in 0..L {
            sum[i] += (ya * a[i] + yb * b[i]) + (yd * d[i] + ye * e[i]);
        }
    }
    for row in joined..rows {
        let (x, dy) = (strip::<T, L>(&x[row * c..]), dy[row * k]);
        for i in 0..L {
            sum[i] += dy * x[i];
        }
    }
    sum
}

/// Overwrites `sums` with the sums of columns of a matrix whose rows have `width` elements, from column `first` on; zero without
/// rows. In f64: the bias gradient below a batch norm is nothing but what rounding leaves of terms that cancel.
pub fn column_sums<T: Float>(rows: &[T], width: usize, first: usize, sums: &mut [T]) {
    for (i, sums) in sums.chunks_mut(COLUMNS).enumerate() {
        let (at, mut strip) = (first + i * COLUMNS, [0.0; COLUMNS]);
        for row in rows.chunks_exact(width) {
            strip.iter_mut().zip(&row[at..][..sums.len()]).for_each(|(sum, term)| *sum += term.to_f64());
        }
        sums.iter_mut().zip(strip).for_each(|(sum, strip)| *sum = T::from_f64(strip));
    }
}
