//! Batch normalisation on blocks. All kernels walk over lines `[W, C]` and keep the sums or constants of a strip of
//! channels in registers along a line.

use crate::Float;
use crate::lines::{line_len, lines};
use crate::simd::{STRIP, multiversion, strip};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// `[count, means of C channels, M2s of C channels]` of `part`: what [`merge`] merges.
pub(super) fn moments<T: Float>(x: &Block<T>, part: &Region, c: usize) -> Vec<f64> {
    let mut all = vec![0.0; 1 + 2 * c];
    let mut line = vec![0.0; 1 + 2 * c];
    let len = line_len(part);
    for at in lines(part) {
        let o = x.offset(at);
        line_moments(&x.data()[o..o + len], c, &mut line);
        merge(&mut all, &line);
    }
    all
}

/// Merges the (count, means, M2s) on the right into those on the left: Chan, Golub and LeVeque (1979), eq. 2.1.
pub(super) fn merge(left: &mut [f64], right: &[f64]) {
    let c = left.len() / 2;
    let (a, b) = (left[0], right[0]);
    if b == 0.0 {
        return;
    }
    let total = a + b;
    let (share, cross) = (b / total, a * b / total);
    left[0] = total;
    let (means, m2s) = left[1..].split_at_mut(c);
    for i in 0..c {
        let delta = right[1 + i] - means[i];
        means[i] += delta * share;
        m2s[i] += right[1 + c + i] + delta * delta * cross;
    }
}

multiversion! {
    /// Moments of one line `[W, C]`, small enough to be read twice from cache: first the means, then deviations.
    fn line_moments<T: Float>(line: &[T], c: usize, moments: &mut [f64]) {
        let rows = (line.len() / c) as f64;
        moments[0] = rows;
        let (means, m2s) = moments[1..].split_at_mut(c);
        let strips = c / STRIP * STRIP;
        for first in (0..strips).step_by(STRIP) {
            strip_moments::<T, STRIP>(line, c, first, rows, means, m2s);
        }
        for first in strips..c {
            strip_moments::<T, 1>(line, c, first, rows, means, m2s);
        }
    }
}

#[inline(always)]
fn strip_moments<T: Float, const L: usize>(
    line: &[T],
    c: usize,
    first: usize,
    rows: f64,
    means: &mut [f64],
    m2s: &mut [f64],
) {
    let mut mean = [0.0; L];
    for row in line.chunks_exact(c) {
        let x = wide::<T, L>(&row[first..]);
        for i in 0..L {
            mean[i] += x[i];
        }
    }
    for i in 0..L {
        mean[i] /= rows;
    }
    let mut m2 = [0.0; L];
    for row in line.chunks_exact(c) {
        let x = wide::<T, L>(&row[first..]);
        for i in 0..L {
            let delta = x[i] - mean[i];
            m2[i] += delta * delta;
        }
    }
    means[first..first + L].copy_from_slice(&mean);
    m2s[first..first + L].copy_from_slice(&m2);
}

/// What [`normalise`] applies to each channel.
pub(super) struct Affine<T> {
    pub mean: Vec<T>,
    /// `weight / sqrt(var + eps)`.
    pub scale: Vec<T>,
    /// `bias`.
    pub shift: Vec<T>,
}

multiversion! {
    /// `y = (x - mean) * scale + shift` on `part`.
    pub(super) fn normalise<T: Float>(affine: &Affine<T>, x: &Block<T>, y: &mut Block<T>, part: &Region) {
        let (c, len) = (part.0[4].len(), line_len(part));
        let strips = c / STRIP * STRIP;
        for at in lines(part) {
            let (x_at, y_at) = (x.offset(at), y.offset(at));
            let (x, y) = (&x.data()[x_at..x_at + len], &mut y.data_mut()[y_at..y_at + len]);
            for first in (0..strips).step_by(STRIP) {
                normalise_strip::<T, STRIP>(affine, c, first, x, y);
            }
            for first in strips..c {
                normalise_strip::<T, 1>(affine, c, first, x, y);
            }
        }
    }
}

#[inline(always)]
fn normalise_strip<T: Float, const L: usize>(affine: &Affine<T>, c: usize, first: usize, x: &[T], y: &mut [T]) {
    let [mean, scale, shift] = [&affine.mean, &affine.scale, &affine.shift].map(|v| strip::<T, L>(&v[first..]));
    for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
        let mut row = strip::<T, L>(&x[first..]);
        for i in 0..L {
            row[i] = (row[i] - mean[i]) * scale[i] + shift[i];
        }
        y[first..first + L].copy_from_slice(&row);
    }
}

multiversion! {
    /// `[sum dy, sum dy * (x - mean)]` over `part`, for each channel.
    pub(super) fn gradient_sums<T: Float>(mean: &[f64], x: &Block<T>, dy: &Block<T>, part: &Region) -> Vec<f64> {
        let (c, len) = (mean.len(), line_len(part));
        let mut sums = vec![0.0; 2 * c];
        let (plain, scaled) = sums.split_at_mut(c);
        let strips = c / STRIP * STRIP;
        for at in lines(part) {
            let (x_at, dy_at) = (x.offset(at), dy.offset(at));
            let (x, dy) = (&x.data()[x_at..x_at + len], &dy.data()[dy_at..dy_at + len]);
            for first in (0..strips).step_by(STRIP) {
                sum_strip::<T, STRIP>(&mean[first..], c, first, x, dy, &mut plain[first..], &mut scaled[first..]);
            }
            for first in strips..c {
                sum_strip::<T, 1>(&mean[first..], c, first, x, dy, &mut plain[first..], &mut scaled[first..]);
            }
        }
        sums
    }
}

#[inline(always)]
fn sum_strip<T: Float, const L: usize>(
    mean: &[f64],
    c: usize,
    first: usize,
    x: &[T],
    dy: &[T],
    plain: &mut [f64],
    scaled: &mut [f64],
) {
    let mean = strip::<f64, L>(mean);
    let (mut sum, mut sum_scaled) = ([0.0; L], [0.0; L]);
    for (x, dy) in x.chunks_exact(c).zip(dy.chunks_exact(c)) {
        let (x, dy) = (wide::<T, L>(&x[first..]), wide::<T, L>(&dy[first..]));
        for i in 0..L {
            sum[i] += dy[i];
            sum_scaled[i] += dy[i] * (x[i] - mean[i]);
        }
    }
    for i in 0..L {
        plain[i] += sum[i];
        scaled[i] += sum_scaled[i];
    }
}

/// What [`input_gradient`] applies to each channel.
pub(super) struct Gradient<T> {
    pub mean: Vec<T>,
    /// `weight / sqrt(var + eps)`.
    pub scale: Vec<T>,
    /// `1/m sum dy` over the group.
    pub mean_dy: Vec<T>,
    /// `1/m sum dy*xhat / sqrt(var + eps)` over the group: multiplies `x - mean`.
    pub slope: Vec<T>,
}

multiversion! {
    /// `dx = scale * (dy - mean_dy - (x - mean) * slope)` on `part`.
    pub(super) fn input_gradient<T: Float>(
        through: &Gradient<T>,
        x: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) {
        let (c, len) = (part.0[4].len(), line_len(part));
        let strips = c / STRIP * STRIP;
        for at in lines(part) {
            let (x_at, dy_at, dx_at) = (x.offset(at), dy.offset(at), dx.offset(at));
            let (x, dy) = (&x.data()[x_at..x_at + len], &dy.data()[dy_at..dy_at + len]);
            let dx = &mut dx.data_mut()[dx_at..dx_at + len];
            for first in (0..strips).step_by(STRIP) {
                gradient_strip::<T, STRIP>(through, c, first, x, dy, dx);
            }
            for first in strips..c {
                gradient_strip::<T, 1>(through, c, first, x, dy, dx);
            }
        }
    }
}

#[inline(always)]
fn gradient_strip<T: Float, const L: usize>(
    through: &Gradient<T>,
    c: usize,
    first: usize,
    x: &[T],
    dy: &[T],
    dx: &mut [T],
) {
    let Gradient { mean, scale, mean_dy, slope } = through;
    let [mean, scale, mean_dy, slope] = [mean, scale, mean_dy, slope].map(|v| strip::<T, L>(&v[first..]));
    for ((x, dy), dx) in x.chunks_exact(c).zip(dy.chunks_exact(c)).zip(dx.chunks_exact_mut(c)) {
        let x = strip::<T, L>(&x[first..]);
        let mut row = strip::<T, L>(&dy[first..]);
        for i in 0..L {
            row[i] = scale[i] * (row[i] - mean_dy[i] - (x[i] - mean[i]) * slope[i]);
        }
        dx[first..first + L].copy_from_slice(&row);
    }
}

/// The first `L` elements in f64.
#[inline(always)]
fn wide<T: Float, const L: usize>(values: &[T]) -> [f64; L] {
    strip::<T, L>(values).map(T::to_f64)
}
