//! Pooling on blocks. Windows are reduced one dimension at a time: depth and height over whole lines into a buffer, then
//! width out of it, so that every inner loop runs over adjoining elements.

use super::join::{Join, Taps};
use super::{Pool, apart};
use crate::Float;
use crate::lines::{Boxes, Lines, line_len, lines};
use crate::simd::{STRIP, multiversion, prefetch_second, strip, strip_at};
use shardmark_host::{PerThread, Team};
use shardmark_partition::{Region, Span, Window};
use shardmark_tensor::{Block, Layout};

/// Elements of the planes that a tile goes through together: what one plane read stays in cache for the next.
pub(super) const TILE: usize = 1 << 17;

/// Planes of a tile, so that few are read by two tiles.
pub(super) const PLANES: usize = 8;

/// A line of joined ones for each thread, kept from step to step.
pub(super) type Scratch<T> = PerThread<Vec<T>>;

/// Makes room for `len` elements in the line of each thread, also for one that gets no part this time.
pub(super) fn fit<T: Float>(lines: &mut Scratch<T>, team: &Team, len: usize) {
    lines.fit(team);
    (0..team.threads()).for_each(|thread| lines.of(thread).resize(len, T::ZERO));
}

/// Lines of a tensor that are joined into one: a box of depths and heights.
pub(super) struct Rows {
    pub first: usize,
    pub counts: [usize; 2],
    pub steps: [usize; 2],
    /// Heights from which on the line so many elements further is one that the next join is the first to read.
    fresh: usize,
    next: usize,
}

impl Rows {
    pub fn new(layout: &Layout, n: i64, [d, h, w]: [Span; 3]) -> Self {
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
pub(super) fn tiles(part: &Region, lines: usize, len: usize) -> Boxes {
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
    fit(scratch, team, columns.len() * c);
    let (y, buffers) = (Lines::new(y, part), &*scratch);
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
        if apart::joins(rows, window, c) {
            return apart::join_windows::<T, J>(x, rows, taps, c, out);
        }
        join_rows::<T, J, false>(x, rows, taps, buffer);
        match window.kernel {
            1 => join_columns::<T, J, 1>(buffer, window, taps, c, out),
            2 => join_columns::<T, J, 2>(buffer, window, taps, c, out),
            3 => join_columns::<T, J, 3>(buffer, window, taps, c, out),
            _ => join_columns::<T, J, 0>(buffer, window, taps, c, out),
        }
    }
}

/// Joins lines of `x` into one; zeros if there is none. `DONE` says that nothing else is joined.
#[inline(always)]
pub(super) fn join_rows<T: Float, J: Join, const DONE: bool>(x: &[T], rows: &Rows, taps: &Taps<T>, line: &mut [T]) {
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
    let [depths, heights] = if D == 0 { rows.counts } else { [D, H] };
    let last = rows.first + (depths - 1) * rows.steps[0] + (heights - 1) * rows.steps[1];
    assert!(last + line.len() <= x.len(), "a window's lines lie inside the tensor");
    let strips = line.len() / STRIP * STRIP;
    let (whole, rest) = line.split_at_mut(strips);
    for (i, out) in whole.chunks_exact_mut(STRIP).enumerate() {
        // SAFETY: the strip lies inside each of the lines, and these inside `x`.
        let joined = unsafe { join_rows_strip::<T, J, DONE, STRIP>(x, rows, [depths, heights], taps, i * STRIP) };
        out.copy_from_slice(&joined);
    }
    for (i, out) in rest.iter_mut().enumerate() {
        // SAFETY: as above.
        [*out] = unsafe { join_rows_strip::<T, J, DONE, 1>(x, rows, [depths, heights], taps, strips + i) };
    }
}

/// Joins the strips at `at` of a box of lines.
///
/// # Safety
/// They lie inside `x`.
#[inline(always)]
pub(super) unsafe fn join_rows_strip<T: Float, J: Join, const DONE: bool, const L: usize>(
    x: &[T],
    rows: &Rows,
    [depths, heights]: [usize; 2],
    taps: &Taps<T>,
    at: usize,
) -> [T; L] {
    let first = x.as_ptr().wrapping_add(rows.first + at);
    let mut joined = [T::ZERO; L];
    for d in 0..depths {
        for h in 0..heights {
            let x = first.wrapping_add(d * rows.steps[0] + h * rows.steps[1]);
            if h >= rows.fresh {
                prefetch_second(x.wrapping_add(rows.next));
            }
            // SAFETY: by this function's contract.
            let next = unsafe { strip_at::<T, L>(x) };
            if (d, h) == (0, 0) {
                joined = next;
                continue;
            }
            for i in 0..L {
                joined[i] = J::join(joined[i], next[i]);
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
