//! Windows of two by two positions, in one plane or two, that lie side by side: each is read, and its gradient written, in one
//! go, with no line between. Results have the bits of the general kernels.

use super::Pool;
use super::join::{Join, Taps};
use super::local::{Rows, join_rows_strip};
use super::max::find_strip;
use crate::Float;
use crate::simd::{STRIP, in_strips, multiversion};
use crate::store::Store;
use shardmark_partition::Window;

/// Positions of a window along height and width.
const SIDE: usize = 2;

/// Most lines that a window reads.
pub(super) const ROWS: usize = 2 * SIDE;

/// Whether the outputs of a line are joined here. The channels of a position are to be whole strips: the general kernels make
/// theirs of several positions.
#[inline(always)]
pub(super) fn joins(rows: &Rows, window: &Window, c: usize) -> bool {
    let [depths, heights] = rows.counts;
    (1..=2).contains(&depths) && heights == SIDE && beside(window, SIDE) && c.is_multiple_of(STRIP)
}

/// Whether the gradient of a pool is written here.
pub(super) fn scatters(pool: &Pool) -> bool {
    let [d, h, w] = &pool.windows;
    (1..=2).any(|depths| beside(d, depths)) && beside(h, SIDE) && beside(w, SIDE)
}

fn beside(window: &Window, extent: usize) -> bool {
    window.kernel == extent && window.stride == extent
}

/// Joins the windows of a line of outputs.
#[inline(always)]
pub(super) fn join_windows<T: Float, J: Join>(x: &[T], rows: &Rows, taps: &Taps<T>, c: usize, out: &mut [T]) {
    match rows.counts[0] {
        1 => join::<T, J, 1>(x, rows, taps, c, out),
        _ => join::<T, J, 2>(x, rows, taps, c, out),
    }
}

#[inline(always)]
fn join<T: Float, J: Join, const D: usize>(x: &[T], rows: &Rows, taps: &Taps<T>, c: usize, out: &mut [T]) {
    let [step_d, step_h] = rows.steps;
    let last = rows.first + (D - 1) * step_d + (SIDE - 1) * step_h;
    assert!(last + SIDE * out.len() <= x.len(), "a window's lines lie inside the tensor");
    for (i, out) in out.chunks_exact_mut(c).enumerate() {
        let at = i * SIDE * c;
        in_strips!(c, |ch, L| {
            // SAFETY: this strip and the next lie inside each of the lines, of `SIDE` times the outputs' length, and these
            // inside `x`.
            let mut joined = unsafe { join_rows_strip::<T, J, false, L>(x, rows, [D, SIDE], taps, at + ch) };
            // SAFETY: as above.
            let right = unsafe { join_rows_strip::<T, J, false, L>(x, rows, [D, SIDE], taps, at + c + ch) };
            for i in 0..L {
                joined[i] = J::finish(J::join(joined[i], right[i]), taps);
            }
            out[ch..ch + L].copy_from_slice(&joined);
        });
    }
}

multiversion! {
    /// Overwrites the lines `dx` that the windows of a line of outputs read, in the order of their taps: the gradient of each
    /// output where its window's maximum is in `x`, zero elsewhere.
    pub(super) fn give_windows<T: Float, S: Store>(
        x: &[T],
        taps: &[usize],
        c: usize,
        slope: T,
        dy: &[T],
        dx: [&mut [T]; ROWS],
    ) {
        match taps.len() / SIDE {
            2 => give::<T, S, 2>(x, taps, c, slope, dy, dx),
            _ => give::<T, S, ROWS>(x, taps, c, slope, dy, dx),
        }
    }
}

#[inline(always)]
fn give<T: Float, S: Store, const R: usize>(
    x: &[T],
    taps: &[usize],
    c: usize,
    slope: T,
    dy: &[T],
    mut dx: [&mut [T]; ROWS],
) {
    let taps = &taps[..R * SIDE];
    for (i, dy) in dy.chunks_exact(c).enumerate() {
        let at = i * SIDE * c;
        in_strips!(c, |ch, L| {
            let [winner, gradient] = find_strip::<T, L, false>(&x[at + ch..], taps, slope, &dy[ch..]);
            let mut number = T::ZERO;
            for dx in &mut dx[..R] {
                for column in 0..SIDE {
                    let mut share = [T::ZERO; L];
                    for i in 0..L {
                        share[i] = if winner[i] == number { gradient[i] } else { T::ZERO };
                    }
                    S::put(share, &mut dx[at + column * c + ch..]);
                    number += T::ONE;
                }
            }
        });
    }
}
