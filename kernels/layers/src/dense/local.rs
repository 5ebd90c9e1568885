//! Dense kernels on rows: `x: [R, C]`, `y: [R, K]`, `weight: [K, C]`, each over the weight once.

use crate::Float;
use crate::simd::{STRIP, multiversion, strip};

/// Samples whose dot products with a row of the weight run together.
const ROWS: usize = 4;

/// Rows of the weight that go into the input gradient together, so that it is read and written less often.
const JOINED: usize = 4;

multiversion! {
    /// `y = x weight^T + bias`; an empty bias adds nothing.
    pub(super) fn forward<T: Float>(weight: &[T], bias: &[T], c: usize, x: &[T], y: &mut [T]) {
        let (k, rows) = (weight.len() / c, x.len() / c);
        let blocked = rows / ROWS * ROWS;
        for (o, weight) in weight.chunks_exact(c).enumerate() {
            let bias = bias.get(o).copied().unwrap_or(T::ZERO);
            for row in (0..blocked).step_by(ROWS) {
                let dots = dots::<T, ROWS>(weight, &x[row * c..]);
                for (i, dot) in dots.into_iter().enumerate() {
                    y[(row + i) * k + o] = dot + bias;
                }
            }
            for row in blocked..rows {
                let [dot] = dots::<T, 1>(weight, &x[row * c..]);
                y[row * k + o] = dot + bias;
            }
        }
    }
}

/// Dot products of `a` with the first `R` rows of `rows`; each adds in the same order for every `R`.
#[inline(always)]
fn dots<T: Float, const R: usize>(a: &[T], rows: &[T]) -> [T; R] {
    let c = a.len();
    let rows: [&[T]; R] = std::array::from_fn(|r| &rows[r * c..(r + 1) * c]);
    let mut lanes = [[T::ZERO; STRIP]; R];
    let strips = c / STRIP * STRIP;
    for at in (0..strips).step_by(STRIP) {
        let a = strip::<T, STRIP>(&a[at..]);
        for r in 0..R {
            let b = strip::<T, STRIP>(&rows[r][at..]);
            for i in 0..STRIP {
                lanes[r][i] += a[i] * b[i];
            }
        }
    }
    let mut dots = [T::ZERO; R];
    for r in 0..R {
        for at in strips..c {
            dots[r] += a[at] * rows[r][at];
        }
        let mut width = STRIP;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[r][i] = lanes[r][i] + lanes[r][i + width];
            }
        }
        dots[r] += lanes[r][0];
    }
    dots
}

multiversion! {
    /// `dx = dy weight`; `dx` starts as zero.
    pub(super) fn backward_data<T: Float>(weight: &[T], c: usize, dy: &[T], dx: &mut [T]) {
        let k = weight.len() / c;
        let joined = k / JOINED * JOINED;
        for o in (0..joined).step_by(JOINED) {
            let [a, b, d, e]: [&[T]; JOINED] = std::array::from_fn(|i| &weight[(o + i) * c..(o + i + 1) * c]);
            for (dy, dx) in dy.chunks_exact(k).zip(dx.chunks_exact_mut(c)) {
                let [ya, yb, yd, ye] = strip::<T, JOINED>(&dy[o..]);
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
        for (o, dw) in dweight.chunks_exact_mut(c).enumerate() {
            for (row, (x, dy)) in x.chunks_exact(c).zip(dy.chunks_exact(k)).enumerate() {
                let dy = dy[o];
                if row == 0 {
                    dw.iter_mut().zip(x).for_each(|(dw, &x)| *dw = dy * x);
                } else {
                    dw.iter_mut().zip(x).for_each(|(dw, &x)| *dw += dy * x);
                }
            }
            if x.is_empty() {
                dw.fill(T::ZERO);
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
