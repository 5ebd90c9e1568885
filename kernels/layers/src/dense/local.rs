//! Dense kernels on rows: `x: [R, C]`, `y: [R, K]`, `weight: [K, C]`, each over the weight once.

use crate::Float;
use crate::simd::{STRIP, multiversion, strip};

/// Rows that are worked on together, so that what they share is loaded less often.
const ROWS: usize = 4;

multiversion! {
    /// `y = x weight^T + bias`; an empty bias adds nothing.
    pub(super) fn forward<T: Float>(weight: &[T], bias: &[T], c: usize, x: &[T], y: &mut [T]) {
        let (k, rows) = (weight.len() / c, x.len() / c);
        for (o, weight) in weight.chunks_exact(c).enumerate() {
            let bias = bias.get(o).copied().unwrap_or(T::ZERO);
            let mut row = 0;
            while row < rows {
                let (x, y) = (&x[row * c..], &mut y[row * k + o..]);
                row += match rows - row {
                    ROWS.. => dots::<T, ROWS>(weight, bias, x, k, y),
                    2.. => dots::<T, 2>(weight, bias, x, k, y),
                    _ => dots::<T, 1>(weight, bias, x, k, y),
                };
            }
        }
    }
}

/// Dot products of `weight` with the first `R` rows of `x`, plus `bias`, into every `k`-th element of `y`; returns `R`.
/// Each is added up in the same order for every `R`: what a sample gives does not depend on its neighbours.
#[inline(always)]
fn dots<T: Float, const R: usize>(weight: &[T], bias: T, x: &[T], k: usize, y: &mut [T]) -> usize {
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
        y[r * k] = rest + sum(&lanes[r]) + bias;
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

multiversion! {
    /// `dx = dy weight`; `dx` starts as zero.
    pub(super) fn backward_data<T: Float>(weight: &[T], c: usize, dy: &[T], dx: &mut [T]) {
        let k = weight.len() / c;
        let joined = k / ROWS * ROWS;
        for o in (0..joined).step_by(ROWS) {
            let [a, b, d, e]: [&[T]; ROWS] = std::array::from_fn(|i| &weight[(o + i) * c..(o + i + 1) * c]);
            for (dy, dx) in dy.chunks_exact(k).zip(dx.chunks_exact_mut(c)) {
                let [ya, yb, yd, ye] = strip::<T, ROWS>(&dy[o..]);
                for i in 0..c {
                    dx[i] += (ya * a[i] + yb * b[i]) + (yd * d[i] + ye * e[i]);
                }
            }
        }
        for o in joined..k {
            let weight = &weight[o * c..(o + 1) * c];
            for (dy, dx) in dy.chunks_exact(k).zip(dx.chunks_exact_mut(c)) {
                let dy = dy[o];
                for (dx, &w) in dx.iter_mut().zip(weight) {
                    *dx += dy * w;
                }
            }
        }
    }
}

multiversion! {
    /// `dweight = dy^T x`; zero without rows.
    pub(super) fn weight_gradient<T: Float>(c: usize, k: usize, x: &[T], dy: &[T], dweight: &mut [T]) {
        let rows = x.len() / c;
        for (o, dw) in dweight.chunks_exact_mut(c).enumerate() {
            dw.fill(T::ZERO);
            let joined = rows / ROWS * ROWS;
            for row in (0..joined).step_by(ROWS) {
                let [a, b, d, e]: [&[T]; ROWS] = std::array::from_fn(|i| &x[(row + i) * c..(row + i + 1) * c]);
                let [ya, yb, yd, ye]: [T; ROWS] = std::array::from_fn(|i| dy[(row + i) * k + o]);
                for i in 0..c {
                    dw[i] += (ya * a[i] + yb * b[i]) + (yd * d[i] + ye * e[i]);
                }
            }
            for row in joined..rows {
                let (x, dy) = (&x[row * c..(row + 1) * c], dy[row * k + o]);
                dw.iter_mut().zip(x).for_each(|(dw, &x)| *dw += dy * x);
            }
        }
    }
}

/// `dbias = sum of the rows of dy`; zero without rows.
pub(super) fn bias_gradient<T: Float>(dy: &[T], dbias: &mut [T]) {
    dbias.fill(T::ZERO);
    for dy in dy.chunks_exact(dbias.len()) {
        dbias.iter_mut().zip(dy).for_each(|(db, &dy)| *db += dy);
    }
}
