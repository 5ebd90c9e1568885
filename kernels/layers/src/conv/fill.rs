//! Copies of weights into the order of the kernels, generic over the instruction set.

use super::simd::Simd;
use crate::simd::prefetch;
use shardmark_tensor::Real;
use std::ops::Range;

/// The weights of a run of adjoining inputs for a block of output channels, to be copied to `[inputs][channels]`.
pub(super) struct Run<T> {
    /// The first input's weight of the first channel.
    pub from: *const T,
    /// Elements from one input (rows) or one channel (columns) to the next.
    pub from_step: usize,
    /// Where the first is written.
    pub to: *mut T,
    /// Elements from one input to the next there.
    pub to_step: usize,
    /// Inputs.
    pub len: usize,
    /// Channels.
    pub channels: usize,
}

/// Copies weights `[inputs][channels]`.
///
/// # Safety
/// The CPU has S; every position that the run describes lies inside its array.
#[inline(always)]
pub(super) unsafe fn rows<S: Simd>(run: &Run<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        for i in 0..run.len {
            let (from, to) = (run.from.add(i * run.from_step), run.to.add(i * run.to_step));
            copy_row::<S>(from, to, run.channels, ROWS_AHEAD * run.from_step);
        }
    }
}

/// Copies adjoining elements, and asks for those that are needed next, so many elements `ahead`.
///
/// # Safety
/// The CPU has S; there are so many elements at both places.
#[inline(always)]
unsafe fn copy_row<S: Simd>(from: *const S::T, to: *mut S::T, len: usize, ahead: usize) {
    let (whole, tail) = (len / S::LANES * S::LANES, len % S::LANES);
    // SAFETY: by this function's contract.
    unsafe {
        for c in (0..whole).step_by(S::LANES) {
            prefetch(from.wrapping_add(ahead + c));
            S::store(to.add(c), S::load(from.add(c)));
        }
        if tail > 0 {
            prefetch(from.wrapping_add(ahead + whole));
            S::store_first(to.add(whole), S::load_first(from.add(whole), tail), tail);
        }
    }
}

/// Columns of a matrix that are copied apart.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// The first, and how many.
    pub first: usize,
    pub columns: usize,
    /// Where that of the first row is written.
    pub to: usize,
    /// Elements from one row to the next there.
    pub to_step: usize,
}

/// Some rows of a matrix, to be copied to panels.
pub(super) struct Matrix<'a, T> {
    /// The first row.
    pub from: *const T,
    /// Elements from one row to the next.
    pub step: usize,
    /// Numbers of the rows in the panels.
    pub rows: Range<usize>,
    /// Columns that go to each panel.
    pub panels: &'a [Panel],
    pub to: *mut T,
}

/// Copies rows of a matrix to panels. Each is read once from end to end: rows that lie some kilobytes apart share sets of the
/// caches, so that their lines would not be there any more for the next panel.
///
/// # Safety
/// The CPU has S; every column of every row is there, and there is room for all panels.
#[inline(always)]
pub(super) unsafe fn panels<S: Simd>(matrix: &Matrix<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        for (i, row) in matrix.rows.clone().enumerate() {
            let from = matrix.from.add(i * matrix.step);
            for panel in matrix.panels {
                let (from, to) = (from.add(panel.first), matrix.to.add(panel.to + row * panel.to_step));
                copy_row::<S>(from, to, panel.columns, PANELS_AHEAD * matrix.step);
            }
        }
    }
}

/// Copies weights `[channels][inputs]`, a square at a time where there is a whole one.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
pub(super) unsafe fn columns<S: Simd>(run: &Run<S::T>) {
    let whole = |n: usize| n / S::LANES * S::LANES;
    let (channels, inputs) = (whole(run.channels), whole(run.len));
    // SAFETY: by this function's contract.
    unsafe {
        for i in (0..inputs).step_by(S::LANES) {
            for c in (0..channels).step_by(S::LANES) {
                let from = run.from.add(c * run.from_step + i);
                S::transpose(|c| from.add(c * run.from_step), run.to.add(i * run.to_step + c), run.to_step);
            }
        }
        singles(run, 0..channels, inputs..run.len);
        singles(run, channels..run.channels, 0..run.len);
    }
}

/// Copies the weights of some channels and inputs one by one, transposed.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn singles<T: Real>(run: &Run<T>, channels: Range<usize>, inputs: Range<usize>) {
    for c in channels {
        for i in inputs.clone() {
            // SAFETY: by this function's contract.
            unsafe { *run.to.add(i * run.to_step + c) = *run.from.add(c * run.from_step + i) };
        }
    }
}

/// Copies `len` elements at each of at most `LANES` rows to `[len][rows]`; up to a vector beyond is overwritten.
///
/// # Safety
/// The CPU has S; the rows have `len` elements, and `to` has room for theirs and a vector.
#[inline(always)]
pub(super) unsafe fn transpose<S: Simd>(rows: &[*const S::T], len: usize, to: *mut S::T) {
    let whole = len / S::LANES * S::LANES;
    // SAFETY: by this function's contract.
    unsafe {
        if rows.len() <= S::LANES {
            for i in (0..whole).step_by(S::LANES) {
                for row in rows {
                    prefetch(row.wrapping_add(i + AHEAD));
                }
                // Rows that are not there give lanes that the next column overwrites.
                S::transpose(|r| rows[r.min(rows.len() - 1)].add(i), to.add(i * rows.len()), rows.len());
            }
        }
        for i in if rows.len() <= S::LANES { whole } else { 0 }..len {
            for (r, row) in rows.iter().enumerate() {
                *to.add(i * rows.len() + r) = *row.add(i);
            }
        }
    }
}

/// Elements of a row that are asked for ahead.
const AHEAD: usize = 128;
/// Rows that are asked for ahead.
const ROWS_AHEAD: usize = 8;
/// Rows of a matrix that are.
const PANELS_AHEAD: usize = 4;
