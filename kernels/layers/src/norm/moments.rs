//! Sums over the positions of blocks, for each channel: in T over few rows, whose sums stay in registers or the first-level
//! cache, in f64 over all.

use super::local::{Affine, Channels};
use super::sweep::{BLOCK, ROWS, Sweep, Walk, overwrite_period, period};
use crate::Float;
use crate::lines::{Boxes, line, line_len, lines};
use crate::simd::{in_strips, leaky, multiversion, strip};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Elements after which distances are taken from a better mean.
const SHIFTED: usize = 4096;

/// Buffers that are kept from step to step, so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Scratch<T> {
    /// One record for each part of a job.
    slots: Vec<f64>,
    threads: PerThread<Sums<T>>,
}

/// What a thread adds up until it moves on to its slot.
#[derive(Default)]
struct Sums<T> {
    /// What distances are taken from, over and over for a period.
    shift: Vec<T>,
    /// Rows, then for each channel the sum of distances, then that of their squares; zeros between boxes.
    sums: Vec<f64>,
    lanes: Lanes<T>,
}

/// The two sums of a panel, for each element of a block.
#[derive(Default)]
struct Lanes<T>([Vec<T>; 2]);

impl<T: Float> Scratch<T> {
    /// Buffers for each thread, also for one that gets no part this time.
    fn fit(&mut self, team: &Team, c: usize) {
        self.threads.fit(team);
        for thread in 0..team.threads() {
            let Sums { shift, sums, lanes } = &mut *self.threads.of(thread);
            shift.clear();
            shift.reserve(period(c));
            sums.resize(1 + 2 * c, 0.0);
            lanes.0.iter_mut().for_each(|lanes| lanes.resize(period(c).min(BLOCK), T::ZERO));
        }
    }
}

/// Writes `[count, means of C channels, M2s of C channels]` of `part` to `all`: what [`merge`] merges.
///
/// One pass: distances are those from the mean so far, as small as the values' own spread.
pub(super) fn moments<T: Float>(
    team: &Team,
    x: &Block<T>,
    part: &Region,
    c: usize,
    scratch: &mut Scratch<T>,
    all: &mut Vec<f64>,
) {
    let (layout, len, record) = (x.layout(), line_len(part), 1 + 2 * c);
    scratch.fit(team, c);
    let sweep = Sweep::of::<T>(part, c);
    let Scratch { slots, threads } = scratch;
    for_each_slot(team, part, record, slots, |thread, part, slot| {
        let Sums { shift, sums, lanes } = &mut *threads.of(thread);
        for at in lines(&part) {
            let x = line(x.data(), &layout, at, len);
            if sums[0] == 0.0 {
                if slot[0] == 0.0 {
                    guess_means(x, c, &mut slot[1..=c]);
                }
                overwrite_period(shift, slot[1..=c].iter().map(|&mean| T::from_f64(mean)));
            }
            add_moments(x, shift, sweep, lanes, sums);
            if sums[0] >= slot[0].max((SHIFTED / c) as f64) {
                move_to(slot, sums, shift);
            }
        }
        move_to(slot, sums, shift);
    });
    all.clear();
    all.resize(record, 0.0);
    slots.chunks_exact(record).for_each(|slot| merge(all, slot));
}

/// Calls `work(thread, box, slot)` for each box of `part`, with a slot of `len` zeros in `slots` for what it adds up. Slots are
/// as many for every team: who adds them in order gets the same bits from all.
fn for_each_slot(
    team: &Team,
    part: &Region,
    len: usize,
    slots: &mut Vec<f64>,
    work: impl Fn(usize, Region, &mut [f64]) + Sync,
) {
    let boxes = Boxes::of_at_least(part, len * ROWS);
    slots.clear();
    slots.resize(boxes.count() * len, 0.0);
    let slots = SharedMut::new(slots);
    team.run(boxes.count(), |thread, i| {
        // SAFETY: each part is given out once, and slots do not overlap.
        work(thread, boxes.get(i), unsafe { slots.part(i * len..(i + 1) * len) });
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
    /// Adds the means of some rows of a line to zeros.
    fn guess_means<T: Float>(line: &[T], c: usize, means: &mut [f64]) {
        const GUESSES: usize = 4;
        let rows = line.len() / c;
        for i in 0..GUESSES {
            for (mean, x) in means.iter_mut().zip(&line[i * rows / GUESSES * c..]) {
                *mean += x.to_f64() / GUESSES as f64;
            }
        }
    }
}

multiversion! {
    /// Merges sums of distances into a slot, and begins anew.
    fn move_to<T: Float>(slot: &mut [f64], sums: &mut [f64], shift: &[T]) {
        let rows = sums[0];
        let c = slot.len() / 2;
        let (means, m2s) = sums[1..].split_at_mut(c);
        for ((mean, m2), shift) in means.iter_mut().zip(m2s).zip(shift) {
            // Rounding may leave less than nothing.
            *m2 = (*m2 - *mean * *mean / rows).max(0.0);
            *mean = shift.to_f64() + *mean / rows;
        }
        merge(slot, sums);
        sums.fill(0.0);
    }
}

/// Two sums over the positions of a line.
trait Terms<T> {
    /// Adds the terms of a strip, whose first element in a row is `first`, to the first sums in `plain` and `others`.
    fn add<const L: usize>(&self, walk: Walk, first: usize, plain: &mut [T], others: &mut [T]);
}

/// Adds both sums of each channel to those in f64, by panels; the line has `len` elements.
#[inline(always)]
fn add_terms<T: Float>(terms: impl Terms<T>, len: usize, sweep: Sweep, lanes: &mut Lanes<T>, sums: &mut [f64]) {
    let ([plain, others], period) = (&mut lanes.0, sweep.period);
    let (sums, other_sums) = sums.split_at_mut(sums.len() / 2);
    for panel in (0..len).step_by(ROWS * period) {
        for first in (0..period).step_by(BLOCK) {
            plain.fill(T::ZERO);
            others.fill(T::ZERO);
            for walk in Walk::over(panel..len.min(panel + ROWS * period), sweep) {
                in_strips!(walk.block(first), |at, L| {
                    terms.add::<L>(walk, first + at, &mut plain[at..], &mut others[at..]);
                });
            }
            add_lanes(sums, first, plain);
            add_lanes(other_sums, first, others);
        }
    }
}

/// Adds what a block from element `first` on gathered to the sums of channels. A period of several positions, a power of two,
/// is one block: its halves are added up until they are those of one position.
#[inline(always)]
fn add_lanes<T: Float>(sums: &mut [f64], first: usize, mut lanes: &mut [T]) {
    while lanes.len() > sums.len() {
        let (low, high) = lanes.split_at_mut(lanes.len() / 2);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
        lanes = low;
    }
    sums[first..].iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += lane.to_f64());
}

multiversion! {
    /// Adds the distances of a line's values from `shift`, and their squares.
    fn add_moments<T: Float>(line: &[T], shift: &[T], sweep: Sweep, lanes: &mut Lanes<T>, sums: &mut [f64]) {
        let c = sums.len() / 2;
        add_terms(Distances { line, shift }, line.len(), sweep, lanes, &mut sums[1..]);
        sums[0] += (line.len() / c) as f64;
    }
}

/// Distances from `shift`, and their squares.
struct Distances<'a, T> {
    line: &'a [T],
    shift: &'a [T],
}

impl<T: Float> Terms<T> for Distances<'_, T> {
    #[inline(always)]
    fn add<const L: usize>(&self, walk: Walk, first: usize, plain: &mut [T], squares: &mut [T]) {
        let shift = strip::<T, L>(&self.shift[first..]);
        let (mut sum, mut square_sum) = (strip::<T, L>(plain), strip::<T, L>(squares));
        for at in walk.places(first) {
            let x = &self.line[at..];
            walk.ask::<T, L>(x);
            let x = strip::<T, L>(x);
            for i in 0..L {
                let distance = x[i] - shift[i];
                sum[i] += distance;
                square_sum[i] += distance * distance;
            }
        }
        plain[..L].copy_from_slice(&sum);
        squares[..L].copy_from_slice(&square_sum);
    }
}

/// Writes `[sum dz, sum dz * (x - mean)]` over `part`, for each channel, to `sums`; `dz` is `dy` through the activation.
pub(super) fn gradient_sums<T: Float>(
    team: &Team,
    (mean, channels, slope): (&[f64], &Channels<T>, T),
    x: &Block<T>,
    dy: &Block<T>,
    part: &Region,
    scratch: &mut Scratch<T>,
    sums: &mut Vec<f64>,
) {
    let (x_at, dy_at, len, c) = (x.layout(), dy.layout(), line_len(part), mean.len());
    scratch.fit(team, c);
    let sweep = Sweep::of::<T>(part, c);
    let Scratch { slots, threads } = scratch;
    for_each_slot(team, part, 2 * c, slots, |thread, part, slot| {
        let lanes = &mut threads.of(thread).lanes;
        for at in lines(&part) {
            let (x, dy) = (line(x.data(), &x_at, at, len), line(dy.data(), &dy_at, at, len));
            add_gradients(channels, slope, sweep, x, dy, lanes, slot);
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
    fn add_gradients<T: Float>(
        channels: &Channels<T>,
        slope: T,
        sweep: Sweep,
        x: &[T],
        dy: &[T],
        lanes: &mut Lanes<T>,
        sums: &mut [f64],
    ) {
        add_terms(Gradients { channels, slope, x, dy }, x.len(), sweep, lanes, sums);
    }
}

/// Gradients `dz`, and their products with distances from the means.
struct Gradients<'a, T> {
    channels: &'a Channels<T>,
    slope: T,
    x: &'a [T],
    dy: &'a [T],
}

impl<T: Float> Terms<T> for Gradients<'_, T> {
    #[inline(always)]
    fn add<const L: usize>(&self, walk: Walk, first: usize, plain: &mut [T], scaled: &mut [T]) {
        let affine = Affine::<T, L>::of(self.channels, first);
        let mean = affine.mean();
        let (mut sum, mut scaled_sum) = (strip::<T, L>(plain), strip::<T, L>(scaled));
        for at in walk.places(first) {
            let (x, dy) = (&self.x[at..], &self.dy[at..]);
            walk.ask::<T, L>(x);
            walk.ask::<T, L>(dy);
            let x = strip::<T, L>(x);
            let dz = leaky(self.slope, affine.apply(x), strip::<T, L>(dy));
            for i in 0..L {
                sum[i] += dz[i];
                scaled_sum[i] += dz[i] * (x[i] - mean[i]);
            }
        }
        plain[..L].copy_from_slice(&sum);
        scaled[..L].copy_from_slice(&scaled_sum);
    }
}
