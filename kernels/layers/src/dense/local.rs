//! Dense kernels on rows: `x: [R, C]`, `y: [R, K]`, `weight: [K, C]`, each over the weight once.

use crate::Float;
use crate::simd::{STRIP, multiversion, strip};

/// Rows that are worked on together, so that what they share is loaded less often.
const ROWS: usize = 4;

multiversion! {
    /// `y = x weight^T + bias`; an empty bias adds nothing.
    pub(super) fn forward<T: Float>(weight: &[T], bias: &[T], c: usize, x: &[T], y: &mut [T]) {
        let (k, rows) = (weight.len() / c, x.len() / c);
        let mut o = 0;
        while o < k {
            let pair = (k - o).min(2);
            let mut row = 0;
            while row < rows {
                let group = if rows - row >= ROWS { ROWS } else { 1 };
                let (weight, x, y) = (&weight[o * c..], &x[row * c..], &mut y[row * k + o..]);
                match (pair, group) {
                    (2, ROWS) => tile::<T, 2, ROWS>(weight, x, c, k, y),
                    (2, _) => tile::<T, 2, 1>(weight, x, c, k, y),
                    (_, ROWS) => tile::<T, 1, ROWS>(weight, x, c, k, y),
                    _ => tile::<T, 1, 1>(weight, x, c, k, y),
                }
                row += group;
            }
            o += pair;
        }
        if !bias.is_empty() {
            for y in y.chunks_exact_mut(k) {
                y.iter_mut().zip(bias).for_each(|(y, &b)| *y += b);
            }
        }
    }
}

/// Dot products of the first `O` rows of `weight` with the first `R` rows of `x`, into `y[r * k + o]`. Each is added up
/// in the same order for every `O` and `R`: what a sample gives does not depend on its neighbours.
#[inline(always)]
fn tile<T: Float, const O: usize, const R: usize>(weight: &[T], x: &[T], c: usize, k: usize, y: &mut [T]) {
    let weight: [&[T]; O] = std::array::from_fn(|o| &weight[o * c..(o + 1) * c]);
    let x: [&[T]; R] = std::array::from_fn(|r| &x[r * c..(r + 1) * c]);
    let mut lanes = [[[T::ZERO; STRIP]; R]; O];
    let strips = c / STRIP * STRIP;
    for at in (0..strips).step_by(STRIP) {
        let x = x.map(|x| strip::<T, STRIP>(&x[at..]));
        for o in 0..O {
            let w = strip::<T, STRIP>(&weight[o][at..]);
            for r in 0..R {
                for i in 0..STRIP {
                    lanes[o][r][i] += w[i] * x[r][i];
                }
            }
        }
    }
    for o in 0..O {
        for r in 0..R {
            let rest = (strips..c).fold(T::ZERO, |sum, i| sum + weight[o][i] * x[r][i]);
            y[r * k + o] = rest + sum(lanes[o][r]);
        }
    }
}

/// Sum of the lanes, by halves.
#[inline(always)]
fn sum<T: Float>(mut lanes: [T; STRIP]) -> T {
    let mut width = STRIP;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
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
