//! Pooling on blocks, and the gradient of average pooling. Windows are reduced one dimension at a time: depth and height
//! over whole lines into a buffer, then width out of it, so that every inner loop runs over adjoining elements.

use super::Pool;
use super::join::{Join, Mean, Taps};
use crate::Float;
use crate::lines::{Boxes, Lines, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, prefetch_second, strip};
use crate::store::{Cached, Store, Stores, Streaming, fence};
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
    /// Where in a line of outputs those are that read each column of inputs, equally many for each: zeros, after the line,
    /// where there are fewer.
    readers: Vec<usize>,
}

impl<T: Float> Scratch<T> {
    /// A line of `len` elements for each thread, also for one that gets no part this time.
    fn fit(&mut self, team: &Team, len: usize) {
        self.lines.fit(team);
        (0..team.threads()).for_each(|thread| self.lines.of(thread).resize(len, T::ZERO));
    }
}

/// Lines of a tensor that are joined into one: a box of depths and heights.
struct Rows {
    first: usize,
    counts: [usize; 2],
    steps: [usize; 2],
    /// Heights from which on the line so many elements further is one that the next join is the first to read.
    fresh: usize,
    next: usize,
}

impl Rows {
    fn new(layout: &Layout, n: i64, [d, h, w]: [Span; 3]) -> Self {
        let [_, step_d, step_h, ..] = layout.strides();
        let counts = [d.len(), h.len()];
        let first = if counts.contains(&0) { 0 } else { layout.offset([n, d.lo, h.lo, w.lo]) };
        Rows { first, counts, steps: [step_d, step_h], fresh: usize::MAX, next: 0 }
    }

    /// The same, the next join being that of the output below. Where windows do not overlap, all lines are fresh, and the
    /// hardware follows them.
    fn downwards(self, window: &Window) -> Self {
        let fresh = if window.kernel > window.stride { window.kernel - window.stride } else { usize::MAX };
        Rows { fresh, next: window.stride * self.steps[1], ..self }
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
    let (layout, taps) = (x.layout(), Taps::new(pool));
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
            forward_line::<T, J>(x.data(), &Rows::new(&layout, n, spans).downwards(&wh), &ww, &taps, c, buffer, out);
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
    let (layout, taps) = (dy.layout(), Taps::new(pool));
    let through = through.map(|(slope, x)| (slope, x.data(), x.layout()));
    let readers = |w| ww.outputs(Span::new(w, w + 1));
    let most = (part.0[3].lo..part.0[3].hi).map(|w| readers(w).len()).max().unwrap_or(0).max(1);
    scratch.readers.clear();
    scratch.readers.extend((part.0[3].lo..part.0[3].hi).flat_map(|w| {
        let Span { lo, hi } = readers(w);
        (lo..lo + most as i64).map(move |o| (if o < hi { o - columns.lo } else { columns.len() as i64 }) as usize * c)
    }));
    let tiles = tiles(part, 1, len);
    scratch.fit(team, (columns.len() + 1) * c);
    let (dx, buffers, readers) = (Lines::new(dx), &scratch.lines, (&scratch.readers[..], most));
    let gather_line = match Stores::of::<T>(part) {
        Stores::Cached => gather_line::<T, Cached>,
        Stores::Streaming => gather_line::<T, Streaming>,
    };
    team.run(tiles.count(), |thread, i| {
        let buffer = &mut *buffers.of(thread);
        for at in lines(&tiles.get(i)) {
            let [n, d, h, _] = at;
            let spans = [wd.outputs(Span::new(d, d + 1)), wh.outputs(Span::new(h, h + 1)), columns];
            let through = through.map(|(slope, x, layout)| (slope, crate::lines::line(x, &layout, at, len)));
            // SAFETY: each line is in one tile, and each tile is given out once.
            let out = unsafe { dx.line(at, len) };
            gather_line(dy.data(), &Rows::new(&layout, n, spans), &taps, readers, through, buffer, out);
        }
        fence();
    });
}

multiversion! {
    /// One line of outputs.
    fn forward_line<T: Float, J: Join>(
        x: &[T],
        rows: &Rows,
        window: &Window,
        taps: &Taps<T>,
        c: usize,
        buffer: &mut [T],
        out: &mut [T],
    ) {
        join_rows::<T, J, false>(x, rows, taps, buffer);
        match window.kernel {
            1 => join_columns::<T, J, 1>(buffer, window, taps, c, out),
            2 => join_columns::<T, J, 2>(buffer, window, taps, c, out),
            3 => join_columns::<T, J, 3>(buffer, window, taps, c, out),
            _ => join_columns::<T, J, 0>(buffer, window, taps, c, out),
        }
    }
}

multiversion! {
    /// One line of input gradients, with the places of so many `readers` of each column.
    fn gather_line<T: Float, S: Store>(
        dy: &[T],
        rows: &Rows,
        taps: &Taps<T>,
        readers: (&[usize], usize),
        through: Option<(T, &[T])>,
        buffer: &mut [T],
        out: &mut [T],
    ) {
        let columns = readers.0.len() / readers.1;
        let (line, zeros) = buffer.split_at_mut(buffer.len() - out.len() / columns);
        // Divided here, not once for each input that an output reaches.
        join_rows::<T, Mean, true>(dy, rows, taps, line);
        zeros.fill(T::ZERO);
        match through {
            None => spread::<T, S, false>(buffer, readers, T::ONE, &[], out),
            Some((slope, x)) => spread::<T, S, true>(buffer, readers, slope, x, out),
        }
    }
}

/// Joins lines of `x` into one; zeros if there is none. `DONE` says that nothing else is joined.
#[inline(always)]
fn join_rows<T: Float, J: Join, const DONE: bool>(x: &[T], rows: &Rows, taps: &Taps<T>, line: &mut [T]) {
    match rows.counts {
        [0, _] | [_, 0] => line.fill(T::ZERO),
        [1, 1] => join_box::<T, J, DONE, 1, 1>(x, rows, taps, line),
        [1, 2] => join_box::<T, J, DONE, 1, 2>(x, rows, taps, line),
        [1, 3] => join_box::<T, J, DONE, 1, 3>(x, rows, taps, line),
        [2, 1] => join_box::<T, J, DONE, 2, 1>(x, rows, taps, line),
        [2, 2] => join_box::<T, J, DONE, 2, 2>(x, rows, taps, line),
        [3, 3] => join_box::<T, J, DONE, 3, 3>(x, rows, taps, line),
        _ => join_box::<T, J, DONE, 0, 0>(x, rows, taps, line),
    }
}

/// Joins a box of `D` by `H` lines; 0 by 0 is one that is not compiled in.
#[inline(always)]
fn join_box<T: Float, J: Join, const DONE: bool, const D: usize, const H: usize>(
    x: &[T],
    rows: &Rows,
    taps: &Taps<T>,
    line: &mut [T],
) {
    let strips = line.len() / STRIP * STRIP;
    let (whole, rest) = line.split_at_mut(strips);
    for (i, out) in whole.chunks_exact_mut(STRIP).enumerate() {
        out.copy_from_slice(&join_rows_strip::<T, J, DONE, STRIP, D, H>(x, rows, taps, i * STRIP));
    }
    for (i, out) in rest.iter_mut().enumerate() {
        [*out] = join_rows_strip::<T, J, DONE, 1, D, H>(x, rows, taps, strips + i);
    }
}

#[inline(always)]
fn join_rows_strip<T: Float, J: Join, const DONE: bool, const L: usize, const D: usize, const H: usize>(
    x: &[T],
    rows: &Rows,
    taps: &Taps<T>,
    at: usize,
) -> [T; L] {
    let [depths, heights] = if D == 0 { rows.counts } else { [D, H] };
    let mut joined = strip::<T, L>(&x[rows.first + at..]);
    for d in 0..depths {
        for h in 0..heights {
            let x = &x[rows.first + at + d * rows.steps[0] + h * rows.steps[1]..];
            if h >= rows.fresh {
                prefetch_second(x.as_ptr().wrapping_add(rows.next));
            }
            if (d, h) != (0, 0) {
                let next = strip::<T, L>(x);
                for i in 0..L {
                    joined[i] = J::join(joined[i], next[i]);
                }
            }
        }
    }
    if DONE {
        for i in 0..L {
            joined[i] = J::finish(joined[i], taps);
        }
    }
    joined
}

/// Joins the positions of each window of a line; `K` is the kernel, or 0 for one that is not compiled in.
#[inline(always)]
fn join_columns<T: Float, J: Join, const K: usize>(
    line: &[T],
    window: &Window,
    taps: &Taps<T>,
    c: usize,
    out: &mut [T],
) {
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
fn join_strip<T: Float, J: Join, const L: usize>(window: &[T], c: usize, kernel: usize, taps: &Taps<T>, out: &mut [T]) {
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
fn spread<T: Float, S: Store, const LEAKY: bool>(
    line: &[T],
    (readers, most): (&[usize], usize),
    slope: T,
    y: &[T],
    out: &mut [T],
) {
    match most {
        1 => spread_columns::<T, S, LEAKY, 1>(line, (readers, most), slope, y, out),
        2 => spread_columns::<T, S, LEAKY, 2>(line, (readers, most), slope, y, out),
        3 => spread_columns::<T, S, LEAKY, 3>(line, (readers, most), slope, y, out),
        _ => spread_columns::<T, S, LEAKY, 0>(line, (readers, most), slope, y, out),
    }
}

/// The same for columns with `COUNT` readers, or 0 for a number that is not compiled in.
#[inline(always)]
fn spread_columns<T: Float, S: Store, const LEAKY: bool, const COUNT: usize>(
    line: &[T],
    (readers, most): (&[usize], usize),
    slope: T,
    y: &[T],
    out: &mut [T],
) {
    let count = if COUNT == 0 { most } else { COUNT };
    let c = out.len() / (readers.len() / count);
    let strips = c / STRIP * STRIP;
    for (w, (out, readers)) in out.chunks_exact_mut(c).zip(readers.chunks_exact(count)).enumerate() {
        for ch in (0..strips).step_by(STRIP) {
            let y = if LEAKY { &y[w * c + ch..] } else { y };
            spread_strip::<T, S, STRIP, LEAKY>(&line[ch..], readers, slope, y, &mut out[ch..]);
        }
        for ch in strips..c {
            let y = if LEAKY { &y[w * c + ch..] } else { y };
            spread_strip::<T, S, 1, LEAKY>(&line[ch..], readers, slope, y, &mut out[ch..]);
        }
    }
}

#[inline(always)]
fn spread_strip<T: Float, S: Store, const L: usize, const LEAKY: bool>(
    line: &[T],
    readers: &[usize],
    slope: T,
    y: &[T],
    out: &mut [T],
) {
    if S::FETCHES {
        prefetch_next(out);
    }
    let mut sum = strip::<T, L>(&line[readers[0]..]);
    for &reader in &readers[1..] {
        let next = strip::<T, L>(&line[reader..]);
        for i in 0..L {
            sum[i] += next[i];
        }
    }
    if LEAKY {
        prefetch_next(y);
        sum = leaky(slope, strip::<T, L>(y), sum);
    }
    S::put(sum, out);
}
