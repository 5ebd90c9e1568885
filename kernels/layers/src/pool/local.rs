//! Pooling on blocks. Windows are reduced one dimension at a time: depth and height over whole lines into a buffer,
//! then width out of it, so that every inner loop runs over adjoining elements.

use super::Pool;
use crate::Float;
use crate::lines::{line_len, lines};
use crate::simd::{STRIP, multiversion, strip};
use shardmark_partition::{Dim, Region, Span, Window};
use shardmark_tensor::Block;

/// How the values of a window become one.
pub(super) trait Join {
    /// Joins two values; `a` comes first in the window.
    fn join<T: Float>(a: T, b: T) -> T;
    /// The result of a window of `taps` values.
    fn finish<T: Float>(joined: T, taps: T) -> T;
}

/// Average pooling.
pub(super) struct Mean;

/// Max pooling.
pub(super) struct Max;

/// The gradient of average pooling.
struct Sum;

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

impl Join for Sum {
    #[inline(always)]
    fn join<T: Float>(a: T, b: T) -> T {
        a + b
    }

    #[inline(always)]
    fn finish<T: Float>(joined: T, _taps: T) -> T {
        joined
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
fn beats<T: Float>(b: T, a: T) -> bool {
    (b > a) | (b != b)
}

multiversion! {
    /// `y[part]` from the windows in `x`.
    pub(super) fn forward<T: Float, J: Join>(pool: &Pool, x: &Block<T>, y: &mut Block<T>, part: &Region) {
        if part.is_empty() {
            return;
        }
        let [wd, wh, ww] = pool.windows;
        let (c, len) = (part.0[4].len(), line_len(part));
        let columns = ww.inputs(part.0[3]);
        let mut buffer = vec![T::ZERO; columns.len() * c];
        let taps = T::from_f64(pool.taps() as f64);
        for [n, d, h, w] in lines(part) {
            let (rows_d, rows_h) = (wd.inputs(Span::new(d, d + 1)), wh.inputs(Span::new(h, h + 1)));
            join_rows::<T, J>(x, n, [rows_d, rows_h, columns], &mut buffer);
            let at = y.offset([n, d, h, w]);
            let out = &mut y.data_mut()[at..at + len];
            for (i, out) in out.chunks_exact_mut(c).enumerate() {
                let first = i * ww.stride * c;
                let window = &buffer[first..first + ww.kernel * c];
                join_columns::<T, J>(window, c, taps, out);
            }
        }
    }
}

multiversion! {
    /// `dx[part]`, gathered from the `dy` of all outputs that read it (zero outside the output tensor).
    pub(super) fn gather_average<T: Float>(pool: &Pool, dy: &Block<T>, dx: &mut Block<T>, part: &Region) {
        if part.is_empty() {
            return;
        }
        let [wd, wh, ww] = pool.windows;
        let (c, len) = (part.0[4].len(), line_len(part));
        let reached = |i: usize| pool.windows[i - 1].outputs(part.0[i]);
        let columns = reached(3);
        let mut buffer = vec![T::ZERO; columns.len() * c];
        let taps = T::from_f64(pool.taps() as f64);
        // Divided once here, not once for each input that an output reaches.
        let outputs = part.with(Dim::D, reached(1)).with(Dim::H, reached(2)).with(Dim::W, columns);
        let mut share = dy.pack(&outputs);
        share.iter_mut().for_each(|g| *g = *g / taps);
        let share = Block::from_vec(outputs, share);
        // The outputs of each input column, as columns of the buffer.
        let readers: Vec<(usize, usize)> = (part.0[3].lo..part.0[3].hi)
            .map(|w| ww.outputs(Span::new(w, w + 1)))
            .map(|o| ((o.lo - columns.lo) as usize, o.len()))
            .collect();
        for [n, d, h, w] in lines(part) {
            let (rows_d, rows_h) = (wd.outputs(Span::new(d, d + 1)), wh.outputs(Span::new(h, h + 1)));
            join_rows::<T, Sum>(&share, n, [rows_d, rows_h, columns], &mut buffer);
            let at = dx.offset([n, d, h, w]);
            let out = &mut dx.data_mut()[at..at + len];
            for (out, &(first, count)) in out.chunks_exact_mut(c).zip(&readers) {
                if count == 0 {
                    out.fill(T::ZERO);
                } else {
                    join_columns::<T, Sum>(&buffer[first * c..(first + count) * c], c, taps, out);
                }
            }
        }
    }
}

/// Joins the lines of `x` at sample `n` over a box of depths, heights and columns into one line; zeros if there is none.
#[inline(always)]
fn join_rows<T: Float, J: Join>(x: &Block<T>, n: i64, [rows_d, rows_h, columns]: [Span; 3], line: &mut [T]) {
    if rows_d.is_empty() || rows_h.is_empty() {
        line.fill(T::ZERO);
    }
    for d in rows_d.lo..rows_d.hi {
        for h in rows_h.lo..rows_h.hi {
            let at = x.offset([n, d, h, columns.lo]);
            let row = &x.data()[at..at + line.len()];
            if (d, h) == (rows_d.lo, rows_h.lo) {
                line.copy_from_slice(row);
            } else {
                for (a, &b) in line.iter_mut().zip(row) {
                    *a = J::join(*a, b);
                }
            }
        }
    }
}

/// Joins the positions of `window: [KW, C]` into `out: [C]`.
#[inline(always)]
fn join_columns<T: Float, J: Join>(window: &[T], c: usize, taps: T, out: &mut [T]) {
    let strips = c / STRIP * STRIP;
    for first in (0..strips).step_by(STRIP) {
        join_strip::<T, J, STRIP>(&window[first..], c, taps, &mut out[first..]);
    }
    for first in strips..c {
        join_strip::<T, J, 1>(&window[first..], c, taps, &mut out[first..]);
    }
}

#[inline(always)]
fn join_strip<T: Float, J: Join, const L: usize>(window: &[T], c: usize, taps: T, out: &mut [T]) {
    let mut joined = strip::<T, L>(window);
    let mut at = c;
    while at < window.len() {
        let next = strip::<T, L>(&window[at..]);
        for i in 0..L {
            joined[i] = J::join(joined[i], next[i]);
        }
        at += c;
    }
    for i in 0..L {
        joined[i] = J::finish(joined[i], taps);
    }
    out[..L].copy_from_slice(&joined);
}

multiversion! {
    /// Adds `dy` of each output in `part` to the `dx` of the input that won its window in `x`.
    pub(super) fn scatter_max<T: Float>(pool: &Pool, x: &Block<T>, dy: &Block<T>, dx: &mut Block<T>, part: &Region) {
        let (x_taps, dx_taps) = (tap_offsets(pool, x), tap_offsets(pool, dx));
        let c = part.0[4].len();
        let [wd, wh, ww] = pool.windows;
        let strips = c / STRIP * STRIP;
        for [n, d, h, w] in lines(part) {
            for w in w..part.0[3].hi {
                let first = |window: Window, o| o * window.stride as i64 - window.pad as i64;
                let corner = [n, first(wd, d), first(wh, h), first(ww, w)];
                let (x_at, dx_at, dy_at) = (x.offset(corner), dx.offset(corner), dy.offset([n, d, h, w]));
                for ch in (0..strips).step_by(STRIP) {
                    let dy = strip::<T, STRIP>(&dy.data()[dy_at + ch..]);
                    let winner = winner(&x.data()[x_at + ch..], &x_taps);
                    add_to_winner(winner, dy, &mut dx.data_mut()[dx_at + ch..], &dx_taps);
                }
                for ch in strips..c {
                    let dy = strip::<T, 1>(&dy.data()[dy_at + ch..]);
                    let winner = winner(&x.data()[x_at + ch..], &x_taps);
                    add_to_winner(winner, dy, &mut dx.data_mut()[dx_at + ch..], &dx_taps);
                }
            }
        }
    }
}

/// Offsets of the taps of a window from its first, in the order d, h, w.
fn tap_offsets<T: Float>(pool: &Pool, block: &Block<T>) -> Vec<usize> {
    let [_, sd, sh, sw, _] = block.strides();
    let [kd, kh, kw] = pool.windows.map(|w| w.kernel);
    let mut offsets = Vec::with_capacity(pool.taps());
    for d in 0..kd {
        for h in 0..kh {
            offsets.extend((0..kw).map(|w| d * sd + h * sh + w * sw));
        }
    }
    offsets
}

/// Number of the tap that wins in each channel, as a `T` so that it is selected in lanes of the same width; -1 where
/// everything is -inf.
#[inline(always)]
fn winner<T: Float, const L: usize>(x: &[T], taps: &[usize]) -> [T; L] {
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
    winner
}

#[inline(always)]
fn add_to_winner<T: Float, const L: usize>(winner: [T; L], dy: [T; L], dx: &mut [T], taps: &[usize]) {
    let mut number = T::ZERO;
    for &tap in taps {
        let dx = &mut dx[tap..tap + L];
        for i in 0..L {
            dx[i] += if winner[i] == number { dy[i] } else { T::ZERO };
        }
        number += T::ONE;
    }
}
