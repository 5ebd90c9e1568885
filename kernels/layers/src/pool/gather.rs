//! The gradient of average pooling: an input gathers from the outputs that read it, again along depth and height over whole
//! lines first, and then along the width.

use super::Pool;
use super::join::{Mean, Taps};
use super::local::{self, Rows, join_rows, tiles};
use crate::Float;
use crate::lines::{Lines, line_len, lines};
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, prefetch_second, strip, strip_at};
use crate::store::{Cached, Store, Stores, Streaming, fence};
use shardmark_host::Team;
use shardmark_partition::{Region, Span, Window};
use shardmark_tensor::Block;

/// Elements by which activations are asked for ahead: a few lines, while other lines are joined.
const AHEAD: usize = 4096;

/// Buffers that are kept from step to step, so that a step allocates nothing.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: local::Scratch<T>,
    readers: Readers,
}

/// Where in a line of outputs those are that read each column of inputs.
#[derive(Default)]
struct Readers {
    /// Equally many for each column: zeros, after the line, where there are fewer. All lie inside a line with these zeros.
    places: Vec<usize>,
    each: usize,
    /// Elements of a line with the zeros.
    line: usize,
    channels: usize,
}

impl Readers {
    /// Those of the columns of a span, with so many channels.
    fn find(&mut self, window: &Window, inputs: Span, channels: usize) {
        let outputs = window.outputs(inputs);
        let readers = |w| window.outputs(Span::new(w, w + 1));
        let columns = inputs.lo..inputs.hi;
        let each = columns.clone().map(|w| readers(w).len()).max().unwrap_or(0).max(1);
        self.places.clear();
        self.places.extend(columns.flat_map(|w| {
            let Span { lo, hi } = readers(w);
            let place = move |o: i64| (if o < hi { o - outputs.lo } else { outputs.len() as i64 }) as usize * channels;
            (lo..lo + each as i64).map(place)
        }));
        (self.each, self.line, self.channels) = (each, (outputs.len() + 1) * channels, channels);
        assert!(
            self.places.iter().all(|place| place + channels <= self.line),
            "an input's readers are among all readers"
        );
    }
}

/// `dx[part]`, gathered from the `dy` of all outputs that read it (zero outside the output tensor). With a slope, the
/// inputs `x` are the outputs of a leaky ReLU, and the gradient goes on through it.
pub(super) fn average<T: Float>(
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
    let (len, columns) = (line_len(part), ww.outputs(part.0[3]));
    let (layout, taps) = (dy.layout(), Taps::new(pool));
    let through = through.map(|(slope, x)| (slope, x.data(), x.layout()));
    let Scratch { lines: buffers, readers } = scratch;
    readers.find(&ww, part.0[3], part.0[4].len());
    local::fit(buffers, team, readers.line);
    let gather_line = match Stores::of::<T>(dx.region()) {
        Stores::Cached => gather_line::<T, Cached>,
        Stores::Streaming => gather_line::<T, Streaming>,
    };
    let (dx, buffers, readers, tiles) = (Lines::new(dx, part), &*buffers, &*readers, tiles(part, 1, len));
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
    /// One line of input gradients.
    fn gather_line<T: Float, S: Store>(
        dy: &[T],
        rows: &Rows,
        taps: &Taps<T>,
        readers: &Readers,
        through: Option<(T, &[T])>,
        buffer: &mut [T],
        out: &mut [T],
    ) {
        let (line, zeros) = buffer.split_at_mut(buffer.len() - readers.channels);
        // Divided here, not once for each input that an output reaches.
        join_rows::<T, Mean, true>(dy, rows, taps, line);
        zeros.fill(T::ZERO);
        match through {
            None => spread::<T, S, false>(buffer, readers, T::ONE, &[], out),
            Some((slope, x)) => spread::<T, S, true>(buffer, readers, slope, x, out),
        }
    }
}

/// Adds up for each column of inputs what its readers give; with `LEAKY`, goes on through a leaky ReLU with outputs `y`.
#[inline(always)]
fn spread<T: Float, S: Store, const LEAKY: bool>(line: &[T], readers: &Readers, slope: T, y: &[T], out: &mut [T]) {
    match readers.each {
        1 => spread_columns::<T, S, LEAKY, 1>(line, readers, slope, y, out),
        2 => spread_columns::<T, S, LEAKY, 2>(line, readers, slope, y, out),
        3 => spread_columns::<T, S, LEAKY, 3>(line, readers, slope, y, out),
        _ => spread_columns::<T, S, LEAKY, 0>(line, readers, slope, y, out),
    }
}

/// The same for columns with `EACH` readers, or 0 for a number that is not compiled in.
#[inline(always)]
fn spread_columns<T: Float, S: Store, const LEAKY: bool, const EACH: usize>(
    line: &[T],
    readers: &Readers,
    slope: T,
    y: &[T],
    out: &mut [T],
) {
    let (c, each) = (readers.channels, if EACH == 0 { readers.each } else { EACH });
    assert!(line.len() == readers.line, "a line of outputs has all readers");
    assert!(!LEAKY || y.len() == out.len(), "every gradient has its activation");
    let strips = c / STRIP * STRIP;
    for (w, (out, readers)) in out.chunks_exact_mut(c).zip(readers.places.chunks_exact(each)).enumerate() {
        let y = if LEAKY { &y[w * c..][..c] } else { y };
        for ch in (0..strips).step_by(STRIP) {
            let y = if LEAKY { &y[ch..] } else { y };
            // SAFETY: readers have `c` elements of the line, as they were found.
            let sum = unsafe { sum_strip::<T, STRIP>(line.as_ptr().wrapping_add(ch), readers) };
            put_strip::<T, S, STRIP, LEAKY>(sum, slope, y, &mut out[ch..]);
        }
        for ch in strips..c {
            let y = if LEAKY { &y[ch..] } else { y };
            // SAFETY: as above.
            let sum = unsafe { sum_strip::<T, 1>(line.as_ptr().wrapping_add(ch), readers) };
            put_strip::<T, S, 1, LEAKY>(sum, slope, y, &mut out[ch..]);
        }
    }
}

/// Adds up the strips so many elements after `line`.
///
/// # Safety
/// There are such.
#[inline(always)]
unsafe fn sum_strip<T: Float, const L: usize>(line: *const T, readers: &[usize]) -> [T; L] {
    // SAFETY: by this function's contract.
    let strip = |reader| unsafe { strip_at::<T, L>(line.wrapping_add(reader)) };
    let mut sum = strip(readers[0]);
    for &reader in &readers[1..] {
        let next = strip(reader);
        for i in 0..L {
            sum[i] += next[i];
        }
    }
    sum
}

#[inline(always)]
fn put_strip<T: Float, S: Store, const L: usize, const LEAKY: bool>(mut sum: [T; L], slope: T, y: &[T], out: &mut [T]) {
    if S::FETCHES {
        prefetch_next(out);
    }
    if LEAKY {
        prefetch_second(y.as_ptr().wrapping_add(AHEAD));
        sum = leaky(slope, strip::<T, L>(y), sum);
    }
    S::put(sum, out);
}
