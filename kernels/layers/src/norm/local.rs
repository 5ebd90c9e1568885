//! Batch normalisation on blocks. All kernels walk over lines `[W, C]` by panels of rows, and keep the sums or constants of a
//! strip of channels in registers along a panel.

use crate::Float;
use crate::lines::{Boxes, line, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, strip};
use crate::store::Store;
use shardmark_host::{SharedMut, Team};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Elements of a panel, about: the strips of a longer one would be walks with long steps, which the hardware does not foresee
/// and which throw each other's lines out of the first-level cache.
const PANEL: usize = 256;

/// Most rows of a panel. Sums over its rows are in T, all others in f64.
const ROWS: usize = 32;

/// Elements of a panel of about so many: whole rows.
#[inline(always)]
fn panel(elements: usize, c: usize) -> usize {
    (elements / c).clamp(1, ROWS) * c
}

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
    // The moments of a box, then the sums of a line.
    for_each_slot(team, part, 2 * record, slots, |part, slot| {
        let (all, sums) = slot.split_at_mut(record);
        for at in lines(&part) {
            line_moments(line(x.data(), &layout, at, len), c, sums, all);
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
#[inline(always)]
pub(super) fn merge(left: &mut [f64], right: &[f64]) {
    let (a, b) = (left[0], right[0]);
    if b == 0.0 {
        return;
    }
    let total = a + b;
    let (share, cross) = (b / total, a * b / total);
    left[0] = total;
    let c = left.len() / 2;
    let ((means, m2s), (new_means, new_m2s)) = (left[1..].split_at_mut(c), right[1..].split_at(c));
    for ((mean, m2), (new_mean, new_m2)) in means.iter_mut().zip(m2s).zip(new_means.iter().zip(new_m2s)) {
        let delta = new_mean - *mean;
        *mean += delta * share;
        *m2 += new_m2 + delta * delta * cross;
    }
}

multiversion! {
    /// Merges the moments of one line `[W, C]` into `all`, from sums of distances from the means so far and of their
    /// squares: one pass, and distances as small as the values' own spread. `sums` is scratch.
    fn line_moments<T: Float>(line: &[T], c: usize, sums: &mut [f64], all: &mut [f64]) {
        if all[0] == 0.0 {
            guess_means(line, c, &mut all[1..=c]);
        }
        // Of one tensor alone twice as much fits.
        let (panel, strips) = (panel(2 * PANEL, c), c / STRIP * STRIP);
        sums.fill(0.0);
        for x in line.chunks(panel) {
            for first in (0..strips).step_by(STRIP) {
                strip_moments::<T, STRIP>(x, c, first, &all[1..], sums);
            }
            for first in strips..c {
                strip_moments::<T, 1>(x, c, first, &all[1..], sums);
            }
        }
        let rows = (line.len() / c) as f64;
        sums[0] = rows;
        let (means, m2s) = sums[1..].split_at_mut(c);
        for ((mean, m2), &guess) in means.iter_mut().zip(m2s).zip(&all[1..]) {
            // Rounding may leave less than nothing.
            *m2 = (*m2 - *mean * *mean / rows).max(0.0);
            *mean = T::from_f64(guess).to_f64() + *mean / rows;
        }
        merge(all, sums);
    }
}

/// Means of some rows of a line.
fn guess_means<T: Float>(line: &[T], c: usize, means: &mut [f64]) {
    const GUESSES: usize = 4;
    let rows = line.len() / c;
    means.fill(0.0);
    for row in (0..GUESSES).map(|i| i * rows / GUESSES * c) {
        means.iter_mut().zip(&line[row..]).for_each(|(mean, x)| *mean += x.to_f64() / GUESSES as f64);
    }
}

/// Adds a strip's distances from `means` to the first half of `sums[1..]`, their squares to the second.
#[inline(always)]
fn strip_moments<T: Float, const L: usize>(x: &[T], c: usize, first: usize, means: &[f64], sums: &mut [f64]) {
    let mut mean = [T::ZERO; L];
    for i in 0..L {
        mean[i] = T::from_f64(means[first + i]);
    }
    let (mut plain, mut squares) = ([T::ZERO; L], [T::ZERO; L]);
    for x in x.chunks_exact(c) {
        let x = &x[first..];
        prefetch_next(x);
        let x = strip::<T, L>(x);
        for i in 0..L {
            let distance = x[i] - mean[i];
            plain[i] += distance;
            squares[i] += distance * distance;
        }
    }
    let (plains, all_squares) = sums[1..].split_at_mut(c);
    add(&mut plains[first..], plain);
    add(&mut all_squares[first..], squares);
}

/// Adds a strip to the first sums.
#[inline(always)]
fn add<T: Float, const L: usize>(sums: &mut [f64], terms: [T; L]) {
    let sums = &mut sums[..L];
    for i in 0..L {
        sums[i] += terms[i].to_f64();
    }
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
    pub(super) fn normalise<T: Float, S: Store>(channels: &Channels<T>, slope: T, x: &[T], y: &mut [T]) {
        let c = channels.mean.len();
        let (panel, strips) = (panel(PANEL, c), c / STRIP * STRIP);
        for (x, y) in x.chunks(panel).zip(y.chunks_mut(panel)) {
            for first in (0..strips).step_by(STRIP) {
                normalise_strip::<T, S, STRIP>(channels, slope, first, x, y);
            }
            for first in strips..c {
                normalise_strip::<T, S, 1>(channels, slope, first, x, y);
            }
        }
    }
}

#[inline(always)]
fn normalise_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    first: usize,
    x: &[T],
    y: &mut [T],
) {
    let (affine, c) = (Affine::<T, L>::of(channels, first), channels.mean.len());
    for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
        let (x, y) = (&x[first..], &mut y[first..]);
        prefetch_next(x);
        if S::FETCHES {
            prefetch_next(y);
        }
        let z = affine.apply(strip::<T, L>(x));
        S::put(leaky(slope, z, z), y);
    }
}

/// Mean, scale and shift of a strip of channels.
struct Affine<T, const L: usize>([[T; L]; 3]);

impl<T: Float, const L: usize> Affine<T, L> {
    #[inline(always)]
    fn of(channels: &Channels<T>, first: usize) -> Self {
        let Channels { mean, scale, shift, .. } = channels;
        Affine([strip(&mean[first..]), strip(&scale[first..]), strip(&shift[first..])])
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
            line_sums(channels, slope, x, dy, slot);
        }
    });
    sums.clear();
    sums.resize(2 * c, 0.0);
    for slot in slots.chunks_exact(2 * c) {
        sums.iter_mut().zip(slot).for_each(|(sum, part)| *sum += part);
    }
    // From distances from the rounded means to those from the means.
    let (plain, scaled) = sums.split_at_mut(c);
    for ((plain, scaled), (mean, rounded)) in plain.iter().zip(scaled).zip(mean.iter().zip(&channels.mean)) {
        *scaled += *plain * (rounded.to_f64() - mean);
    }
}

multiversion! {
    /// Adds the sums of one line.
    fn line_sums<T: Float>(channels: &Channels<T>, slope: T, x: &[T], dy: &[T], sums: &mut [f64]) {
        let c = channels.mean.len();
        let (panel, strips) = (panel(PANEL, c), c / STRIP * STRIP);
        for (x, dy) in x.chunks(panel).zip(dy.chunks(panel)) {
            for first in (0..strips).step_by(STRIP) {
                sum_strip::<T, STRIP>(channels, slope, first, [x, dy], sums);
            }
            for first in strips..c {
                sum_strip::<T, 1>(channels, slope, first, [x, dy], sums);
            }
        }
    }
}

#[inline(always)]
fn sum_strip<T: Float, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    first: usize,
    [x, dy]: [&[T]; 2],
    sums: &mut [f64],
) {
    let (affine, c) = (Affine::<T, L>::of(channels, first), channels.mean.len());
    let mean = affine.0[0];
    let (mut plain, mut scaled) = ([T::ZERO; L], [T::ZERO; L]);
    for (x, dy) in x.chunks_exact(c).zip(dy.chunks_exact(c)) {
        let (x, dy) = (&x[first..], &dy[first..]);
        prefetch_next(x);
        prefetch_next(dy);
        let x = strip::<T, L>(x);
        let dz = leaky(slope, affine.apply(x), strip::<T, L>(dy));
        for i in 0..L {
            plain[i] += dz[i];
            scaled[i] += dz[i] * (x[i] - mean[i]);
        }
    }
    let (plains, all_scaled) = sums.split_at_mut(c);
    add(&mut plains[first..], plain);
    add(&mut all_scaled[first..], scaled);
}

multiversion! {
    /// `dx = scale * (dz - mean_dy - (x - mean) * through)` on a line `[W, C]`; without `dy`, over the one that `dx` holds.
    pub(super) fn input_gradient<T: Float, S: Store>(
        channels: &Channels<T>,
        slope: T,
        x: &[T],
        dy: Option<&[T]>,
        dx: &mut [T],
    ) {
        let c = channels.mean.len();
        let (panel, strips) = (panel(PANEL, c), c / STRIP * STRIP);
        for (i, (x, dx)) in x.chunks(panel).zip(dx.chunks_mut(panel)).enumerate() {
            let dy = dy.map(|dy| &dy[i * panel..][..dx.len()]);
            for first in (0..strips).step_by(STRIP) {
                gradient_strip::<T, S, STRIP>(channels, slope, first, [x, dy.unwrap_or_default()], dx);
            }
            for first in strips..c {
                gradient_strip::<T, S, 1>(channels, slope, first, [x, dy.unwrap_or_default()], dx);
            }
        }
    }
}

#[inline(always)]
fn gradient_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    first: usize,
    [x, dy]: [&[T]; 2],
    dx: &mut [T],
) {
    let c = channels.mean.len();
    let affine = Affine::<T, L>::of(channels, first);
    let [mean, scale, _] = affine.0;
    let (mean_dy, through) = (strip::<T, L>(&channels.mean_dy[first..]), strip::<T, L>(&channels.through[first..]));
    for (at, (x, dx)) in x.chunks_exact(c).zip(dx.chunks_exact_mut(c)).enumerate() {
        let (x, dx) = (&x[first..], &mut dx[first..]);
        let dy = if dy.is_empty() { &*dx } else { &dy[at * c + first..] };
        prefetch_next(x);
        prefetch_next(dy);
        if S::FETCHES {
            prefetch_next(dx);
        }
        let x = strip::<T, L>(x);
        let mut row = leaky(slope, affine.apply(x), strip::<T, L>(dy));
        for i in 0..L {
            row[i] = scale[i] * (row[i] - mean_dy[i] - (x[i] - mean[i]) * through[i]);
        }
        S::put(row, dx);
    }
}
