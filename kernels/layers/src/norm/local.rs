//! Batch normalisation on blocks. All kernels walk over lines `[W, C]` and keep the sums or constants of a strip of
//! channels in registers along a line.

use crate::Float;
use crate::lines::{Boxes, line, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_written, strip};
use shardmark_host::{SharedMut, Team};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Writes `[count, means of C channels, M2s of C channels]` of `part` to `all`: what [`merge`] merges. `slots` is
/// scratch.
pub(super) fn moments<T: Float>(
    team: &Team,
    x: &Block<T>,
    part: &Region,
    c: usize,
    slots: &mut Vec<f64>,
    all: &mut Vec<f64>,
) {
    let (layout, len, record) = (x.layout(), line_len(part), 1 + 2 * c);
    // The moments of a box, then those of one line.
    for_each_slot(team, part, 2 * record, slots, |part, slot| {
        let (all, one) = slot.split_at_mut(record);
        for at in lines(&part) {
            line_moments(line(x.data(), &layout, at, len), c, one);
            merge(all, one);
        }
    });
    all.clear();
    all.resize(record, 0.0);
    slots.chunks_exact(2 * record).for_each(|slot| merge(all, &slot[..record]));
}

/// Calls `work(box, slot)` for each box of `part`, with a slot of `len` zeros in `slots` for what it adds up. Slots are as
/// many for every team: who adds them in order gets the same bits from all.
fn for_each_slot(
    team: &Team,
    part: &Region,
    len: usize,
    slots: &mut Vec<f64>,
    work: impl Fn(Region, &mut [f64]) + Sync,
) {
    let boxes = Boxes::of(part);
    slots.clear();
    slots.resize(boxes.count() * len, 0.0);
    let slots = SharedMut::new(slots);
    team.run(boxes.count(), |_, i| {
        // SAFETY: each part is given out once, and slots do not overlap.
        work(boxes.get(i), unsafe { slots.part(i * len..(i + 1) * len) });
    });
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

/// What the kernels apply to each channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Channels<T> {
    /// Mean that normalised the batch.
    pub mean: Vec<T>,
    /// `weight / sqrt(var + eps)`.
    pub scale: Vec<T>,
    /// `bias`.
    pub shift: Vec<T>,
    /// `1/m sum dy` over the group.
    pub mean_dy: Vec<T>,
    /// `1/m sum dy*xhat / sqrt(var + eps)` over the group: multiplies `x - mean`.
    pub through: Vec<T>,
}

multiversion! {
    /// `z = (x - mean) * scale + shift`, `y = z > 0 ? z : slope * z` on a line `[W, C]`; a slope of one leaves z.
    pub(super) fn normalise<T: Float>(channels: &Channels<T>, slope: T, x: &[T], y: &mut [T]) {
        let c = channels.mean.len();
        let strips = c / STRIP * STRIP;
        for first in (0..strips).step_by(STRIP) {
            normalise_strip::<T, STRIP>(channels, slope, first, x, y);
        }
        for first in strips..c {
            normalise_strip::<T, 1>(channels, slope, first, x, y);
        }
    }
}

#[inline(always)]
fn normalise_strip<T: Float, const L: usize>(channels: &Channels<T>, slope: T, first: usize, x: &[T], y: &mut [T]) {
    let c = channels.mean.len();
    let affine = Affine::<T, L>::of(channels, first);
    for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
        prefetch_written(&y[first..]);
        let z = affine.apply(strip::<T, L>(&x[first..]));
        y[first..first + L].copy_from_slice(&leaky(slope, z, z));
    }
}

/// Mean, scale and shift of a strip of channels.
struct Affine<T, const L: usize>([[T; L]; 3]);

impl<T: Float, const L: usize> Affine<T, L> {
    #[inline(always)]
    fn of(channels: &Channels<T>, first: usize) -> Self {
        Affine([&channels.mean, &channels.scale, &channels.shift].map(|v| strip::<T, L>(&v[first..])))
    }

    /// The output before the activation: forward and backward take its sign from the same operations.
    #[inline(always)]
    fn apply(&self, mut x: [T; L]) -> [T; L] {
        let [mean, scale, shift] = &self.0;
        for i in 0..L {
            x[i] = (x[i] - mean[i]) * scale[i] + shift[i];
        }
        x
    }
}

/// Writes `[sum dz, sum dz * (x - mean)]` over `part`, for each channel, to `sums`; `dz` is `dy` through the activation.
/// `slots` is scratch.
pub(super) fn gradient_sums<T: Float>(
    team: &Team,
    (mean, channels, slope): (&[f64], &Channels<T>, T),
    x: &Block<T>,
    dy: &Block<T>,
    part: &Region,
    slots: &mut Vec<f64>,
    sums: &mut Vec<f64>,
) {
    let (x_at, dy_at, len, c) = (x.layout(), dy.layout(), line_len(part), mean.len());
    for_each_slot(team, part, 2 * c, slots, |part, slot| {
        for at in lines(&part) {
            let (x, dy) = (line(x.data(), &x_at, at, len), line(dy.data(), &dy_at, at, len));
            line_sums(mean, channels, slope, x, dy, slot);
        }
    });
    sums.clear();
    sums.resize(2 * c, 0.0);
    for slot in slots.chunks_exact(2 * c) {
        sums.iter_mut().zip(slot).for_each(|(sum, part)| *sum += part);
    }
}

multiversion! {
    /// Adds the sums of one line.
    fn line_sums<T: Float>(mean: &[f64], channels: &Channels<T>, slope: T, x: &[T], dy: &[T], sums: &mut [f64]) {
        let c = mean.len();
        let (plain, scaled) = sums.split_at_mut(c);
        let strips = c / STRIP * STRIP;
        for first in (0..strips).step_by(STRIP) {
            let affine = Affine::<T, STRIP>::of(channels, first);
            sum_strip(&mean[first..], &affine, slope, first, [x, dy], &mut plain[first..], &mut scaled[first..]);
        }
        for first in strips..c {
            let affine = Affine::<T, 1>::of(channels, first);
            sum_strip(&mean[first..], &affine, slope, first, [x, dy], &mut plain[first..], &mut scaled[first..]);
        }
    }
}

#[inline(always)]
fn sum_strip<T: Float, const L: usize>(
    mean: &[f64],
    affine: &Affine<T, L>,
    slope: T,
    first: usize,
    [x, dy]: [&[T]; 2],
    plain: &mut [f64],
    scaled: &mut [f64],
) {
    // The slices of means begin at the strip and end with the channels.
    let c = first + mean.len();
    let mean = strip::<f64, L>(mean);
    let (mut sum, mut sum_scaled) = ([0.0; L], [0.0; L]);
    for (x, dy) in x.chunks_exact(c).zip(dy.chunks_exact(c)) {
        let x = strip::<T, L>(&x[first..]);
        let dz = leaky(slope, affine.apply(x), strip::<T, L>(&dy[first..])).map(T::to_f64);
        let x = x.map(T::to_f64);
        for i in 0..L {
            sum[i] += dz[i];
            sum_scaled[i] += dz[i] * (x[i] - mean[i]);
        }
    }
    for i in 0..L {
        plain[i] += sum[i];
        scaled[i] += sum_scaled[i];
    }
}

multiversion! {
    /// `dx = scale * (dz - mean_dy - (x - mean) * through)` on a line `[W, C]`, over the `dy` that `dx` holds.
    pub(super) fn input_gradient<T: Float>(channels: &Channels<T>, slope: T, x: &[T], dx: &mut [T]) {
        let c = channels.mean.len();
        let strips = c / STRIP * STRIP;
        for first in (0..strips).step_by(STRIP) {
            gradient_strip::<T, STRIP>(channels, slope, first, x, dx);
        }
        for first in strips..c {
            gradient_strip::<T, 1>(channels, slope, first, x, dx);
        }
    }
}

#[inline(always)]
fn gradient_strip<T: Float, const L: usize>(channels: &Channels<T>, slope: T, first: usize, x: &[T], dx: &mut [T]) {
    let c = channels.mean.len();
    let affine = Affine::<T, L>::of(channels, first);
    let [mean, scale, _] = affine.0;
    let [mean_dy, through] = [&channels.mean_dy, &channels.through].map(|v| strip::<T, L>(&v[first..]));
    for (x, dx) in x.chunks_exact(c).zip(dx.chunks_exact_mut(c)) {
        let x = strip::<T, L>(&x[first..]);
        let mut row = leaky(slope, affine.apply(x), strip::<T, L>(&dx[first..]));
        for i in 0..L {
            row[i] = scale[i] * (row[i] - mean_dy[i] - (x[i] - mean[i]) * through[i]);
        }
        dx[first..first + L].copy_from_slice(&row);
    }
}

/// The first `L` elements in f64.
#[inline(always)]
fn wide<T: Float, const L: usize>(values: &[T]) -> [f64; L] {
    strip::<T, L>(values).map(T::to_f64)
}
