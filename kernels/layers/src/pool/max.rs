//! The gradient of max pooling: each output's goes to the input that won its window.

use super::Pool;
use super::local::beats;
use crate::Float;
use crate::lines::{Boxes, Lines, line, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, strip};
use shardmark_host::{PerThread, Team};
use shardmark_partition::{Region, SPATIAL, Span, Window};
use shardmark_tensor::{Block, Layout};

/// Buffers that are kept from step to step, so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Scratch<T> {
    /// Places of a window's taps from its first in the inputs, in the order d, h, w.
    taps: Vec<usize>,
    lines: PerThread<Winners<T>>,
}

/// For each output of a line, the number of the tap that won (as a `T`, so that it is selected in lanes of the same width;
/// -1 where everything is -inf) and the gradient that it gets.
#[derive(Default)]
struct Winners<T> {
    numbers: Vec<T>,
    gradients: Vec<T>,
}

impl<T: Float> Scratch<T> {
    /// Buffers for lines of `len` outputs for each thread, also for one that gets no part this time.
    fn fit(&mut self, team: &Team, len: usize, pool: &Pool, x: &Layout) {
        self.lines.fit(team);
        for thread in 0..team.threads() {
            let Winners { numbers, gradients } = &mut *self.lines.of(thread);
            numbers.resize(len, T::ZERO);
            gradients.resize(len, T::ZERO);
        }
        let [kd, kh, kw] = pool.windows.map(|w| w.kernel);
        let [_, sd, sh, sw, _] = x.strides();
        self.taps.clear();
        self.taps.extend((0..kd * kh * kw).map(|i| i / (kh * kw) * sd + i / kw % kh * sh + i % kw * sw));
    }
}

/// Overwrites the whole block `dx`: the `dy` of each output in `part` at the input that won its window in `x`, those of
/// several outputs added up, zero elsewhere. The gradient goes on through a leaky ReLU that gave the inputs; a slope of
/// one leaves it.
pub(super) fn scatter<T: Float>(
    team: &Team,
    (pool, slope): (&Pool, T),
    x: &Block<T>,
    dy: &Block<T>,
    dx: &mut Block<T>,
    part: &Region,
    scratch: &mut Scratch<T>,
) {
    let [wd, wh, ww] = pool.windows;
    let dims = SPATIAL.into_iter().zip(&pool.windows);
    let covered = dims.fold(*part, |region, (dim, window)| region.with(dim, window.inputs(part.span(dim))));
    if pool.windows.iter().all(|w| w.kernel == w.stride) && !part.is_empty() {
        dx.fill_outside(&covered, T::ZERO);
    } else {
        dx.data_mut().fill(T::ZERO);
    }
    let (c, len, columns) = (part.0[4].len(), line_len(part), line_len(&covered));
    scratch.fit(team, len, pool, &x.layout());
    let (x_at, dy_at, taps, buffers) = (x.layout(), dy.layout(), &scratch.taps, &scratch.lines);
    let dx = Lines::new(dx);
    // Lines of windows that overlap along D or H are added to by one thread.
    let boxes = Boxes::of(part).uncut([false, overlap(&wd), overlap(&wh)]);
    let add = pool.windows.iter().any(overlap);
    team.run(boxes.count(), |thread, i| {
        let winners = &mut *buffers.of(thread);
        for at in lines(&boxes.get(i)) {
            let [n, d, h, w] = [at[0], first_input(&wd, at[1]), first_input(&wh, at[2]), first_input(&ww, at[3])];
            let dy = line(dy.data(), &dy_at, at, len);
            find_winners(&x.data()[x_at.offset([n, d, h, w])..], taps, ww.stride * c, c, slope, dy, winners);
            for row in 0..wd.kernel * wh.kernel {
                let at = [n, d + (row / wh.kernel) as i64, h + (row % wh.kernel) as i64, w];
                // SAFETY: lines that two boxes' windows share do not exist, and each box is given out once.
                give_winners(winners, row * ww.kernel, &ww, c, add, unsafe { dx.line(at, columns) });
            }
        }
    });
}

/// Whether an input may be read by two windows along a dimension.
pub(super) fn overlap(window: &Window) -> bool {
    window.kernel > window.stride
}

/// First input of the window of output `o`.
fn first_input(window: &Window, o: i64) -> i64 {
    window.inputs(Span::new(o, o + 1)).lo
}

multiversion! {
    /// Fills in the winners of one line of outputs, whose windows begin every `step` elements of `x`.
    fn find_winners<T: Float>(
        x: &[T],
        taps: &[usize],
        step: usize,
        c: usize,
        slope: T,
        dy: &[T],
        winners: &mut Winners<T>,
    ) {
        let strips = c / STRIP * STRIP;
        let outputs = winners.numbers.chunks_exact_mut(c).zip(winners.gradients.chunks_exact_mut(c));
        for (w, ((numbers, gradients), dy)) in outputs.zip(dy.chunks_exact(c)).enumerate() {
            let x = &x[w * step..];
            for ch in (0..strips).step_by(STRIP) {
                find_strip::<T, STRIP>(&x[ch..], taps, slope, &dy[ch..], &mut numbers[ch..], &mut gradients[ch..]);
            }
            for ch in strips..c {
                find_strip::<T, 1>(&x[ch..], taps, slope, &dy[ch..], &mut numbers[ch..], &mut gradients[ch..]);
            }
        }
    }
}

#[inline(always)]
fn find_strip<T: Float, const L: usize>(
    x: &[T],
    taps: &[usize],
    slope: T,
    dy: &[T],
    numbers: &mut [T],
    gradients: &mut [T],
) {
    let mut best = [T::NEG_INFINITY; L];
    let mut winner = [-T::ONE; L];
    let mut number = T::ZERO;
    for &tap in taps {
        let value = strip::<T, L>(&x[tap..]);
        for i in 0..L {
            let wins = beats(value[i], best[i]);
            best[i] = if wins { value[i] } else { best[i] };
            winner[i] = if wins { number } else { winner[i] };
        }
        number += T::ONE;
    }
    numbers[..L].copy_from_slice(&winner);
    gradients[..L].copy_from_slice(&leaky(slope, best, strip::<T, L>(dy)));
}

multiversion! {
    /// Gives the taps `first..` of each window along one line of inputs their share.
    fn give_winners<T: Float>(winners: &Winners<T>, first: usize, window: &Window, c: usize, add: bool, dx: &mut [T]) {
        let strips = c / STRIP * STRIP;
        let outputs = winners.numbers.chunks_exact(c).zip(winners.gradients.chunks_exact(c));
        for (w, (numbers, gradients)) in outputs.enumerate() {
            for tap in 0..window.kernel {
                let number = T::from_f64((first + tap) as f64);
                let dx = &mut dx[(w * window.stride + tap) * c..][..c];
                for ch in (0..strips).step_by(STRIP) {
                    give_strip::<T, STRIP>(number, &numbers[ch..], &gradients[ch..], add, &mut dx[ch..]);
                }
                for ch in strips..c {
                    give_strip::<T, 1>(number, &numbers[ch..], &gradients[ch..], add, &mut dx[ch..]);
                }
            }
        }
    }
}

#[inline(always)]
fn give_strip<T: Float, const L: usize>(number: T, numbers: &[T], gradients: &[T], add: bool, dx: &mut [T]) {
    prefetch_next(dx);
    let (numbers, mut share) = (strip::<T, L>(numbers), strip::<T, L>(gradients));
    let before = strip::<T, L>(dx);
    for i in 0..L {
        let gets = if numbers[i] == number { share[i] } else { T::ZERO };
        share[i] = if add { before[i] + gets } else { gets };
    }
    dx[..L].copy_from_slice(&share);
}
