//! The gradient of max pooling: each output's goes to the input that won its window.
//!
//! Inputs are cut into tiles. For each line of outputs that reads a tile the winners are found, and each line of inputs in
//! the tile takes its share at once: the first of its readers overwrites it, so that nothing is filled beforehand, and others
//! add. Contributions are added in the order of the outputs, wherever tiles end.

use super::join::beats;
use super::local::{PLANES, TILE};
use super::{Pool, apart};
use crate::Float;
use crate::lines::{Boxes, Lines, line, line_len};
use crate::simd::{in_strips, leaky, multiversion, prefetch_next_strip, strip};
use crate::store::{Cached, Store, Stores, Streaming, fence};
use shardmark_host::{PerThread, Team};
use shardmark_partition::{Region, SPATIAL, Span, Window};
use shardmark_tensor::{Block, Layout};

/// Buffers that are kept from step to step, so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Scratch<T> {
    /// Places of a window's taps from its first in the inputs, in the order d, h, w.
    taps: Vec<usize>,
    /// Their numbers, by which winners are known.
    numbers: Vec<T>,
    /// The outputs of a line that read each column of inputs: the first, how many, and the tap of the first.
    readers: Vec<[usize; 3]>,
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
    /// Tables for a pool of the columns `outputs`, and buffers for lines of `len` outputs for each thread, also for one that
    /// gets no tile this time.
    fn fit(&mut self, team: &Team, len: usize, outputs: Span, pool: &Pool, x: &Layout) {
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
        self.numbers.clear();
        self.numbers.extend((0..self.taps.len()).map(|i| T::from_f64(i as f64)));
        let window = &pool.windows[2];
        let columns = window.inputs(outputs);
        self.readers.clear();
        self.readers.extend((columns.lo..columns.hi).map(|w| {
            let readers = readers(window, w, outputs);
            let tap = if readers.is_empty() { 0 } else { w - window.inputs(readers).lo };
            [readers.lo - outputs.lo, readers.len() as i64, tap].map(|v| v.max(0) as usize)
        }));
    }
}

/// Those of `outputs` that read the input `i` of a dimension.
fn readers(window: &Window, i: i64, outputs: Span) -> Span {
    window.outputs(Span::new(i, i + 1)).intersect(outputs)
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
    if part.is_empty() {
        dx.data_mut().fill(T::ZERO);
        return;
    }
    let dims = SPATIAL.into_iter().zip(&pool.windows);
    let covered = dims.fold(*part, |region, (dim, window)| region.with(dim, window.inputs(part.span(dim))));
    dx.fill_outside(&covered, T::ZERO);
    scratch.fit(team, line_len(part), part.0[3], pool, &x.layout());
    // Whether some line is written more than once.
    let again = pool.windows[..2].iter().any(overlap);
    let run = match Stores::of::<T>(dx.region()) {
        Stores::Streaming if !again => Tile::run::<Streaming>,
        _ => Tile::run::<Cached>,
    };
    let (tiles, tile) = (tiles(pool, &covered), Tile { pool, slope, x, dy, part, scratch });
    let dx = Lines::new(dx, &covered);
    team.run(tiles.count(), |thread, i| run(&tile, thread, &tiles.get(i), dx));
}

/// Tiles of the inputs of a pool: windows that do not overlap lie within one.
fn tiles(pool: &Pool, inputs: &Region) -> Boxes {
    let [sd, sh, _] = pool.windows.map(|w| w.stride);
    let depth = if overlap(&pool.windows[0]) { PLANES.next_multiple_of(sd) } else { sd };
    let depth = depth.min(inputs.0[1].len());
    let height = TILE / (depth * line_len(inputs)).max(1) / sh * sh;
    Boxes::with_steps(inputs, [1, depth, height.max(sh)])
}

/// Whether an input may be read by two windows along a dimension.
pub(super) fn overlap(window: &Window) -> bool {
    window.kernel > window.stride
}

/// What is the same for all tiles.
struct Tile<'a, T> {
    pool: &'a Pool,
    slope: T,
    x: &'a Block<T>,
    dy: &'a Block<T>,
    part: &'a Region,
    scratch: &'a Scratch<T>,
}

impl<T: Float> Tile<'_, T> {
    /// Writes the tile `inputs`, which nobody else touches.
    fn run<S: Store>(&self, thread: usize, inputs: &Region, dx: Lines<T>) {
        let ([wd, wh, _], [n, depths, heights, columns, _]) = (&self.pool.windows, inputs.0);
        let clip = |window: &Window, inputs, i: usize| window.outputs(inputs).intersect(self.part.0[i]);
        // SAFETY: each line is in one tile, and each tile is given out once.
        let line = |d, h| unsafe { dx.line([n.lo, d, h, columns.lo], line_len(inputs)) };
        let unread = |window: &Window, i, at| readers(window, at, self.part.0[i]).is_empty();
        for d in depths.lo..depths.hi {
            for h in (heights.lo..heights.hi).filter(|&h| unread(wd, 1, d) || unread(wh, 2, h)) {
                line(d, h).fill(T::ZERO);
            }
        }
        let winners = &mut *self.scratch.lines.of(thread);
        let (outer, inner) = (clip(wd, depths, 1), clip(wh, heights, 2));
        let apart = apart::scatters(self.pool);
        for (od, oh) in (outer.lo..outer.hi).flat_map(|od| (inner.lo..inner.hi).map(move |oh| (od, oh))) {
            let [reads_d, reads_h] = [wd.inputs(Span::new(od, od + 1)), wh.inputs(Span::new(oh, oh + 1))];
            if apart {
                let mut reads = (reads_d.lo..reads_d.hi).flat_map(|d| (reads_h.lo..reads_h.hi).map(move |h| (d, h)));
                let lines = std::array::from_fn(|_| reads.next().map(|(d, h)| line(d, h)).unwrap_or_default());
                let (x, dy) = self.line([n.lo, od, oh], [reads_d.lo, reads_h.lo]);
                apart::give_windows::<T, S>(x, &self.scratch.taps, self.part.0[4].len(), self.slope, dy, lines);
                continue;
            }
            self.find([n.lo, od, oh], [reads_d.lo, reads_h.lo], winners);
            let [ds, hs] = [reads_d.intersect(depths), reads_h.intersect(heights)];
            for (d, h) in (ds.lo..ds.hi).flat_map(|d| (hs.lo..hs.hi).map(move |h| (d, h))) {
                let first = readers(wd, d, self.part.0[1]).lo == od && readers(wh, h, self.part.0[2]).lo == oh;
                let row = (d - reads_d.lo) as usize * wh.kernel + (h - reads_h.lo) as usize;
                self.give::<S>(winners, row, first, line(d, h));
            }
        }
        fence();
    }

    /// The inputs from the first on that a line of outputs reads, whose windows begin at the depth and height `from`, and the
    /// outputs' gradients.
    fn line(&self, [n, d, h]: [i64; 3], from: [i64; 2]) -> (&[T], &[T]) {
        let outputs = self.part.0[3];
        let at = [n, from[0], from[1], self.pool.windows[2].inputs(outputs).lo];
        let dy = line(self.dy.data(), &self.dy.layout(), [n, d, h, outputs.lo], line_len(self.part));
        (&self.x.data()[self.x.layout().offset(at)..], dy)
    }

    /// Finds the winners of such a line.
    fn find(&self, output: [i64; 3], from: [i64; 2], winners: &mut Winners<T>) {
        let c = self.part.0[4].len();
        let (x, dy) = self.line(output, from);
        find_winners(x, &self.scratch.taps, self.pool.windows[2].stride * c, c, self.slope, dy, winners);
    }

    /// Gives a line of inputs its share of a line of outputs that reads it as row `row` of the window.
    fn give<S: Store>(&self, winners: &Winners<T>, row: usize, first: bool, dx: &mut [T]) {
        let Scratch { numbers, readers, .. } = self.scratch;
        let window = &self.pool.windows[2];
        let numbers = &numbers[row * window.kernel..][..window.kernel];
        give_winners::<T, S>(winners, numbers, window.stride, readers, first, dx);
    }
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
        let outputs = winners.numbers.chunks_exact_mut(c).zip(winners.gradients.chunks_exact_mut(c));
        for (w, ((numbers, gradients), dy)) in outputs.zip(dy.chunks_exact(c)).enumerate() {
            let x = &x[w * step..];
            in_strips!(c, |ch, L| {
                let [winner, gradient] = find_strip::<T, L, true>(&x[ch..], taps, slope, &dy[ch..]);
                numbers[ch..ch + L].copy_from_slice(&winner);
                gradients[ch..ch + L].copy_from_slice(&gradient);
            });
        }
    }
}

/// Winners of a strip of windows, and the gradients that they get. `ASKS` asks for lines of cache ahead, which pays where they
/// are read again.
#[inline(always)]
pub(super) fn find_strip<T: Float, const L: usize, const ASKS: bool>(
    x: &[T],
    taps: &[usize],
    slope: T,
    dy: &[T],
) -> [[T; L]; 2] {
    if ASKS {
        prefetch_next_strip::<T, L>(dy);
    }
    let mut best = [T::NEG_INFINITY; L];
    let mut winner = [-T::ONE; L];
    let mut number = T::ZERO;
    for &tap in taps {
        let x = &x[tap..];
        if ASKS {
            prefetch_next_strip::<T, L>(x);
        }
        // Not in its own place: a conditional store would keep it in memory.
        let (value, mut next) = (strip::<T, L>(x), best);
        for i in 0..L {
            let wins = beats(value[i], best[i]);
            next[i] = if wins { value[i] } else { best[i] };
            winner[i] = if wins { number } else { winner[i] };
        }
        best = next;
        number += T::ONE;
    }
    [winner, leaky(slope, best, strip::<T, L>(dy))]
}

multiversion! {
    /// Gives one line of inputs its share of the outputs that read it; `numbers` are those of the window's taps along it, and
    /// outputs are `stride` columns apart. Overwrites the line if it is the `first` share, else adds.
    fn give_winners<T: Float, S: Store>(
        winners: &Winners<T>,
        numbers: &[T],
        stride: usize,
        readers: &[[usize; 3]],
        first: bool,
        dx: &mut [T],
    ) {
        let c = dx.len() / readers.len();
        for (dx, readers) in dx.chunks_exact_mut(c).zip(readers) {
            in_strips!(c, |ch, L| {
                give_strip::<T, S, L>(winners, numbers, stride, readers, (c, ch), first, &mut dx[ch..]);
            });
        }
    }
}

#[inline(always)]
fn give_strip<T: Float, S: Store, const L: usize>(
    winners: &Winners<T>,
    numbers: &[T],
    stride: usize,
    &[output, count, tap]: &[usize; 3],
    (c, ch): (usize, usize),
    first: bool,
    dx: &mut [T],
) {
    if S::FETCHES {
        prefetch_next_strip::<T, L>(dx);
    }
    let mut sum = if first { [T::ZERO; L] } else { strip::<T, L>(dx) };
    for i in 0..count {
        let (number, at) = (numbers[tap - i * stride], (output + i) * c + ch);
        let (winner, share) = (strip::<T, L>(&winners.numbers[at..]), strip::<T, L>(&winners.gradients[at..]));
        for i in 0..L {
            sum[i] += if winner[i] == number { share[i] } else { T::ZERO };
        }
    }
    S::put(sum, dx);
}
