//! Batch normalisation on blocks. All kernels walk over lines `[W, C]` by panels of rows, and keep the sums or constants of a
//! strip of channels in registers along a panel.

use crate::Float;
use crate::lines::{Boxes, line, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch, strip};
use crate::store::Store;
use shardmark_host::{SharedMut, Team};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Elements of a panel, about. With many channels a strip's walk touches a line of cache in each row, which no hardware
/// foresees; a panel, the next one of each tensor too, stays in the first-level cache until all strips are through.
const PANEL: usize = 2048;

/// Elements of a panel: whole rows.
#[inline(always)]
fn panel(c: usize) -> usize {
    (PANEL / c).max(1) * c
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
    // The moments of a box, then those of one panel.
    for_each_slot(team, part, 2 * record, slots, |part, slot| {
        let (all, one) = slot.split_at_mut(record);
        for at in lines(&part) {
            line_moments(line(x.data(), &layout, at, len), c, one, all);
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
    /// Merges the moments of one line `[W, C]` into `all`. Its panels are read twice, the second time from cache: first
    /// the means, then deviations. `one` is scratch.
    fn line_moments<T: Float>(line: &[T], c: usize, one: &mut [f64], all: &mut [f64]) {
        // Of one tensor alone twice as much fits.
        let (panel, strips) = (2 * panel(c), c / STRIP * STRIP);
        for x in line.chunks(panel) {
            one[0] = (x.len() / c) as f64;
            for first in (0..strips).step_by(STRIP) {
                strip_moments::<T, STRIP>(x, panel, c, first, one);
            }
            for first in strips..c {
                strip_moments::<T, 1>(x, panel, c, first, one);
            }
            merge(all, one);
        }
    }
}

#[inline(always)]
fn strip_moments<T: Float, const L: usize>(x: &[T], panel: usize, c: usize, first: usize, moments: &mut [f64]) {
    let rows = moments[0];
    let (means, m2s) = moments[1..].split_at_mut(c);
    let mut mean = row_sums::<T, L, false>(x, panel, c, first, &[0.0; L]);
    for sum in &mut mean {
        *sum /= rows;
    }
    let m2 = row_sums::<T, L, true>(x, panel, c, first, &mean);
    means[first..first + L].copy_from_slice(&mean);
    m2s[first..first + L].copy_from_slice(&m2);
}

/// Adds up a strip of all rows, or the squares of its distance from `mean`; even and odd rows apart, since a single sum
/// would wait for itself. The first sweep asks for the next panel.
#[inline(always)]
fn row_sums<T: Float, const L: usize, const SQUARES: bool>(
    x: &[T],
    panel: usize,
    c: usize,
    first: usize,
    mean: &[f64; L],
) -> [f64; L] {
    let (mut even, mut odd) = ([0.0; L], [0.0; L]);
    let mut pairs = x.chunks_exact(2 * c);
    for pair in &mut pairs {
        add(&mut even, term::<T, L, SQUARES>(&pair[first..], panel, mean));
        add(&mut odd, term::<T, L, SQUARES>(&pair[c + first..], panel, mean));
    }
    if !pairs.remainder().is_empty() {
        add(&mut even, term::<T, L, SQUARES>(&pairs.remainder()[first..], panel, mean));
    }
    add(&mut even, odd);
    even
}

/// What a row adds: a function, since a closure may not be compiled for wide vectors.
#[inline(always)]
fn term<T: Float, const L: usize, const SQUARES: bool>(x: &[T], panel: usize, mean: &[f64; L]) -> [f64; L] {
    let mut term = wide(strip::<T, L>(x));
    if SQUARES {
        for i in 0..L {
            let delta = term[i] - mean[i];
            term[i] = delta * delta;
        }
    } else {
        prefetch(x.as_ptr().wrapping_add(panel));
    }
    term
}

#[inline(always)]
fn add<const L: usize>(sums: &mut [f64; L], terms: [f64; L]) {
    for i in 0..L {
        sums[i] += terms[i];
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
        let (panel, strips) = (panel(c), c / STRIP * STRIP);
        for (x, y) in x.chunks(panel).zip(y.chunks_mut(panel)) {
            for first in (0..strips).step_by(STRIP) {
                normalise_strip::<T, S, STRIP>(channels, slope, panel, first, x, y);
            }
            for first in strips..c {
                normalise_strip::<T, S, 1>(channels, slope, panel, first, x, y);
            }
        }
    }
}

#[inline(always)]
fn normalise_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    panel: usize,
    first: usize,
    x: &[T],
    y: &mut [T],
) {
    let (affine, c) = (Affine::<T, L>::of(channels, first), channels.mean.len());
    for (x, y) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)) {
        let (x, y) = (&x[first..], &mut y[first..]);
        prefetch(x.as_ptr().wrapping_add(panel));
        if S::FETCHES {
            prefetch(y.as_ptr().wrapping_add(panel));
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
        let (panel, strips) = (panel(c), c / STRIP * STRIP);
        for (x, dy) in x.chunks(panel).zip(dy.chunks(panel)) {
            for first in (0..strips).step_by(STRIP) {
                sum_strip::<T, STRIP>(mean, channels, slope, panel, first, [x, dy], sums);
            }
            for first in strips..c {
                sum_strip::<T, 1>(mean, channels, slope, panel, first, [x, dy], sums);
            }
        }
    }
}

#[inline(always)]
fn sum_strip<T: Float, const L: usize>(
    mean: &[f64],
    channels: &Channels<T>,
    slope: T,
    panel: usize,
    first: usize,
    [x, dy]: [&[T]; 2],
    sums: &mut [f64],
) {
    let (affine, c) = (Affine::<T, L>::of(channels, first), mean.len());
    let mean = strip::<f64, L>(&mean[first..]);
    let (mut plain, mut scaled) = ([0.0; L], [0.0; L]);
    for (x, dy) in x.chunks_exact(c).zip(dy.chunks_exact(c)) {
        let (x, dy) = (&x[first..], &dy[first..]);
        prefetch(x.as_ptr().wrapping_add(panel));
        prefetch(dy.as_ptr().wrapping_add(panel));
        let x = strip::<T, L>(x);
        let dz = wide(leaky(slope, affine.apply(x), strip::<T, L>(dy)));
        let x = wide(x);
        for i in 0..L {
            plain[i] += dz[i];
            scaled[i] += dz[i] * (x[i] - mean[i]);
        }
    }
    for i in 0..L {
        sums[first + i] += plain[i];
        sums[c + first + i] += scaled[i];
    }
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
        let (panel, strips) = (panel(c), c / STRIP * STRIP);
        for (i, (x, dx)) in x.chunks(panel).zip(dx.chunks_mut(panel)).enumerate() {
            let dy = dy.map(|dy| &dy[i * panel..][..dx.len()]);
            for first in (0..strips).step_by(STRIP) {
                gradient_strip::<T, S, STRIP>(channels, slope, panel, first, [x, dy.unwrap_or_default()], dx);
            }
            for first in strips..c {
                gradient_strip::<T, S, 1>(channels, slope, panel, first, [x, dy.unwrap_or_default()], dx);
            }
        }
    }
}

#[inline(always)]
fn gradient_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    panel: usize,
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
        prefetch(x.as_ptr().wrapping_add(panel));
        prefetch(dy.as_ptr().wrapping_add(panel));
        if S::FETCHES {
            prefetch(dx.as_ptr().wrapping_add(panel));
        }
        let x = strip::<T, L>(x);
        let mut row = leaky(slope, affine.apply(x), strip::<T, L>(dy));
        for i in 0..L {
            row[i] = scale[i] * (row[i] - mean_dy[i] - (x[i] - mean[i]) * through[i]);
        }
        S::put(row, dx);
    }
}

/// The same values in f64.
#[inline(always)]
fn wide<T: Float, const L: usize>(values: [T; L]) -> [f64; L] {
    let mut wide = [0.0; L];
    for i in 0..L {
        wide[i] = values[i].to_f64();
    }
    wide
}
