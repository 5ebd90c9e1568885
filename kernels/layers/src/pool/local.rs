//! Pooling on blocks, and the gradient of average pooling. Windows are reduced one dimension at a time: depth and height
//! over whole lines into a buffer, then width out of it, so that every inner loop runs over adjoining elements.

use super::Pool;
use crate::Float;
use crate::lines::{Boxes, Lines, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, strip};
use shardmark_host::{PerThread, Team};
use shardmark_partition::{Region, Span, Window};
use shardmark_tensor::{Block, Layout};

/// Elements of the planes that a tile goes through together: what one plane read stays in cache for the next.
pub(super) const TILE: usize = 1 << 17;

/// Planes of a tile, so that few are read by two tiles.
pub(super) const PLANES: usize = 8;

/// Buffers that are kept from step to step, so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: PerThread<Vec<T>>,
    /// The outputs that read each column of inputs: the first, and how many.
    readers: Vec<(usize, usize)>,
}

impl<T: Float> Scratch<T> {
    /// A line of `len` elements for each thread, also for one that gets no part this time.
    fn fit(&mut self, team: &Team, len: usize) {
        self.lines.fit(team);
        (0..team.threads()).for_each(|thread| self.lines.of(thread).resize(len, T::ZERO));
    }
}

/// How the values of a window become one.
pub(super) trait Join {
    /// Joins two values; `a` comes first in the window.
    fn join<T: Float>(a: T, b: T) -> T;
    /// The result of a window of `taps` values.
    fn finish<T: Float>(joined: T, taps: T) -> T;
}

/// Average pooling, and its gradient.
pub(super) struct Mean;

/// Max pooling.
pub(super) struct Max;

impl Join for Mean {
    #[inline(always)]
    fn join<T: Float>(a: T, b: T) -> T {
        a + b
    }

    #[inline(always)]
    fn finish<T: Float>(joined: T, taps: T) -> T {
        joined / taps
    }
}

impl Join for Max {
    #[inline(always)]
    fn join<T: Float>(a: T, b: T) -> T {
        if beats(b, a) { b } else { a }
    }

    #[inline(always)]
    fn finish<T: Float>(joined: T, _taps: T) -> T {
        joined
    }
}

/// Whether `b`, later in the window, replaces the maximum `a`. NaN wins, as in PyTorch: a net that diverged shows it.
#[inline(always)]
#[allow(clippy::eq_op)]
pub(super) fn beats<T: Float>(b: T, a: T) -> bool {
    (b > a) | (b != b)
}

/// Lines of a tensor that are joined into one: a box of depths and heights.
struct Rows {
    first: usize,
    counts: [usize; 2],
    steps: [usize; 2],
}

impl Rows {
    fn new(layout: &Layout, n: i64, [d, h, w]: [Span; 3]) -> Self {
        let [_, step_d, step_h, ..] = layout.strides();
        let counts = [d.len(), h.len()];
        let first = if counts.contains(&0) { 0 } else { layout.offset([n, d.lo, h.lo, w.lo]) };
        Rows { first, counts, steps: [step_d, step_h] }
    }
}

/// Tiles of a tensor in which `lines` lines of `len` elements are read for one that is computed or cut.
fn tiles(part: &Region, lines: usize, len: usize) -> Boxes {
    Boxes::with_steps(part, [1, PLANES, (TILE / (lines * len).max(1)).max(1)])
}

/// `y[part]` from the windows in `x`.
pub(super) fn forward<T: Float, J: Join>(
    team: &Team,
    pool: &Pool,
    x: &Block<T>,
    y: &mut Block<T>,
    part: &Region,
    scratch: &mut Scratch<T>,
) {
    if part.is_empty() {
        return;
    }
    let [wd, wh, ww] = pool.windows;
    let (c, len, columns) = (part.0[4].len(), line_len(part), ww.inputs(part.0[3]));
    let (layout, taps) = (x.layout(), T::from_f64(pool.taps() as f64));
    let tiles = tiles(part, wd.kernel.max(wd.stride) * wh.stride, columns.len() * c);
    scratch.fit(team, columns.len() * c);
    let (y, buffers) = (Lines::new(y), &scratch.lines);
    team.run(tiles.count(), |thread, i| {
        let buffer = &mut *buffers.of(thread);
        for at in lines(&tiles.get(i)) {
            let [n, d, h, _] = at;
            let spans = [wd.inputs(Span::new(d, d + 1)), wh.inputs(Span::new(h, h + 1)), columns];
            // SAFETY: each line is in one tile, and each tile is given out once.
            let out = unsafe { y.line(at, len) };
            forward_line::<T, J>(x.data(), &Rows::new(&layout, n, spans), &ww, taps, c, buffer, out);
        }
    });
}

/// `dx[part]`, gathered from the `dy` of all outputs that read it (zero outside the output tensor). With a slope, the
/// inputs `x` are the outputs of a leaky ReLU, and the gradient goes on through it.
pub(super) fn gather_average<T: Float>(
    team: &Team,
    pool: &Pool,
    dy: &Block<T>,
    through: Option<(T, &Block<T>)>,
    dx: &mut Block<T>,
    part: &Region,
    scratch: &mut Scratch<T>,
) {
    if part.is_empty() {
        return;
    }
    let [wd, wh, ww] = pool.windows;
    let (c, len, columns) = (part.0[4].len(), line_len(part), ww.outputs(part.0[3]));
    let (layout, taps) = (dy.layout(), T::from_f64(pool.taps() as f64));
    let through = through.map(|(slope, x)| (slope, x.data(), x.layout()));
    scratch.readers.clear();
    let readers = (part.0[3].lo..part.0[3].hi).map(|w| ww.outputs(Span::new(w, w + 1)));
    scratch.readers.extend(readers.map(|o| ((o.lo - columns.lo) as usize, o.len())));
    let tiles = tiles(part, 1, len);
    scratch.fit(team, columns.len() * c);
    let (dx, buffers, readers) = (Lines::new(dx), &scratch.lines, &scratch.readers);
    team.run(tiles.count(), |thread, i| {
        let buffer = &mut *buffers.of(thread);
        for at in lines(&tiles.get(i)) {
            let [n, d, h, _] = at;
            let spans = [wd.outputs(Span::new(d, d + 1)), wh.outputs(Span::new(h, h + 1)), columns];
            let through = through.map(|(slope, x, layout)| (slope, crate::lines::line(x, &layout, at, len)));
            // SAFETY: each line is in one tile, and each tile is given out once.
            let out = unsafe { dx.line(at, len) };
            gather_line::<T>(dy.data(), &Rows::new(&layout, n, spans), taps, readers, through, buffer, out);
        }
    });
}

multiversion! {
    /// One line of outputs.
    fn forward_line<T: Float, J: Join>(
        x: &[T],
        rows: &Rows,
        window: &Window,
        taps: T,
        c: usize,
        buffer: &mut [T],
        out: &mut [T],
    ) {
        join_rows::<T, J>(x, rows, buffer);
        match window.kernel {
            1 => join_columns::<T, J, 1>(buffer, window, taps, c, out),
            2 => join_columns::<T, J, 2>(buffer, window, taps, c, out),
            3 => join_columns::<T, J, 3>(buffer, window, taps, c, out),
            _ => join_columns::<T, J, 0>(buffer, window, taps, c, out),
        }
    }
}

multiversion! {
    /// One line of input gradients.
    fn gather_line<T: Float>(
        dy: &[T],
        rows: &Rows,
        taps: T,
        readers: &[(usize, usize)],
        through: Option<(T, &[T])>,
        buffer: &mut [T],
        out: &mut [T],
    ) {
        join_rows::<T, Mean>(dy, rows, buffer);
        // Divided here, not once for each input that an output reaches.
        buffer.iter_mut().for_each(|sum| *sum = Mean::finish(*sum, taps));
        match through {
            None => spread::<T, false>(buffer, readers, T::ONE, &[], out),
            Some((slope, x)) => spread::<T, true>(buffer, readers, slope, x, out),
        }
    }
}

/// Joins lines of `x` into one; zeros if there is none.
#[inline(always)]
fn join_rows<T: Float, J: Join>(x: &[T], rows: &Rows, line: &mut [T]) {
    if rows.counts.contains(&0) {
        line.fill(T::ZERO);
        return;
    }
    let strips = line.len() / STRIP * STRIP;
    let (whole, rest) = line.split_at_mut(strips);
    for (i, out) in whole.chunks_exact_mut(STRIP).enumerate() {
        out.copy_from_slice(&join_rows_strip::<T, J, STRIP>(x, rows, i * STRIP));
    }
    for (i, out) in rest.iter_mut().enumerate() {
        [*out] = join_rows_strip::<T, J, 1>(x, rows, strips + i);
    }
}

#[inline(always)]
fn join_rows_strip<T: Float, J: Join, const L: usize>(x: &[T], rows: &Rows, at: usize) -> [T; L] {
    let mut joined = strip::<T, L>(&x[rows.first + at..]);
    for d in 0..rows.counts[0] {
        for h in usize::from(d == 0)..rows.counts[1] {
            let next = strip::<T, L>(&x[rows.first + at + d * rows.steps[0] + h * rows.steps[1]..]);
            for i in 0..L {
                joined[i] = J::join(joined[i], next[i]);
            }
        }
    }
    joined
}

/// Joins the positions of each window of a line; `K` is the kernel, or 0 for one that is not compiled in.
#[inline(always)]
fn join_columns<T: Float, J: Join, const K: usize>(line: &[T], window: &Window, taps: T, c: usize, out: &mut [T]) {
    let kernel = if K == 0 { window.kernel } else { K };
    let strips = c / STRIP * STRIP;
    for (i, out) in out.chunks_exact_mut(c).enumerate() {
        let window = &line[i * window.stride * c..][..kernel * c];
        for ch in (0..strips).step_by(STRIP) {
            join_strip::<T, J, STRIP>(&window[ch..], c, kernel, taps, &mut out[ch..]);
        }
        for ch in strips..c {
            join_strip::<T, J, 1>(&window[ch..], c, kernel, taps, &mut out[ch..]);
        }
    }
}

#[inline(always)]
fn join_strip<T: Float, J: Join, const L: usize>(window: &[T], c: usize, kernel: usize, taps: T, out: &mut [T]) {
    let mut joined = strip::<T, L>(window);
    for k in 1..kernel {
        let next = strip::<T, L>(&window[k * c..]);
        for i in 0..L {
            joined[i] = J::join(joined[i], next[i]);
        }
    }
    for i in 0..L {
        joined[i] = J::finish(joined[i], taps);
    }
    out[..L].copy_from_slice(&joined);
}

/// Adds up for each column of inputs what its readers give; with `LEAKY`, goes on through a leaky ReLU with outputs `y`.
#[inline(always)]
fn spread<T: Float, const LEAKY: bool>(line: &[T], readers: &[(usize, usize)], slope: T, y: &[T], out: &mut [T]) {
    let c = out.len() / readers.len();
    let strips = c / STRIP * STRIP;
    for (w, (out, &readers)) in out.chunks_exact_mut(c).zip(readers).enumerate() {
        for ch in (0..strips).step_by(STRIP) {
            let y = if LEAKY { &y[w * c + ch..] } else { y };
            spread_strip::<T, STRIP, LEAKY>(line, readers, c, ch, slope, y, &mut out[ch..]);
        }
        for ch in strips..c {
            let y = if LEAKY { &y[w * c + ch..] } else { y };
            spread_strip::<T, 1, LEAKY>(line, readers, c, ch, slope, y, &mut out[ch..]);
        }
    }
}

#[inline(always)]
fn spread_strip<T: Float, const L: usize, const LEAKY: bool>(
    line: &[T],
    (first, count): (usize, usize),
    c: usize,
    ch: usize,
    slope: T,
    y: &[T],
    out: &mut [T],
) {
    prefetch_next(out);
    let mut sum = if count == 0 { [T::ZERO; L] } else { strip::<T, L>(&line[first * c + ch..]) };
    for reader in first + 1..first + count {
        let next = strip::<T, L>(&line[reader * c + ch..]);
        for i in 0..L {
            sum[i] += next[i];
        }
    }
    if LEAKY {
        sum = leaky(slope, strip::<T, L>(y), sum);
    }
    out[..L].copy_from_slice(&sum);
}
