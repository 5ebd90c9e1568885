//! Drives the `weights` tiles: the weight gradient over a box of outputs.
//!
//! Loop nest: group of outputs / block of output channels / run of the reduction / tile. A group's gradients are copied
//! to a contiguous panel, which stays in the first-level cache while all tiles of the reduction walk along it.

use super::dispatch::Kernels;
use super::gather::Sweep;
use super::pack::{Aligned, Blocks, copy};
use super::simd::prefetch;
use super::tile::{Line, WeightTile};
use shardmark_tensor::Real;
use std::ops::Range;

/// Outputs of a group: sums over a group are added to the gradient, so the group also bounds the rounding error.
const GROUP: usize = 192;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: Vec<Line>,
    groups: Vec<Range<usize>>,
    panel: Aligned<T>,
}

/// Overwrites `dw` with the gradient of the weights `[rows * run][channels]`, the sum over the outputs of a box.
pub(super) fn sum<T: Real>(
    kernels: &Kernels<T>,
    sweep: &Sweep,
    x: &[T],
    dy: &[T],
    rows: &[usize],
    run: usize,
    channels: usize,
    dw: &mut [T],
    scratch: &mut Scratch<T>,
) {
    if sweep.is_empty() {
        dw.fill(T::ZERO);
        return;
    }
    let (last_x, last_y) = sweep.last();
    let reach = rows.iter().max().map_or(0, |r| r + run);
    assert!(last_x + reach <= x.len() && last_y + channels <= dy.len(), "a sweep stays inside its arrays");
    assert_eq!(dw.len(), rows.len() * run * channels, "a weight gradient has an element for every weight");
    // Long lines amortise their start; W unless it is short.
    let longest = (0..4).max_by_key(|&i| sweep.extent[i]).unwrap_or(3);
    let sweep = sweep.with_last(if sweep.extent[3] >= 4 { 3 } else { longest });
    let Scratch { lines, groups, panel } = scratch;
    list_lines(&sweep, lines, groups);
    let problem = Problem { kernels, x, dy, rows, run, channels, x_step: sweep.x_step[3], y_step: sweep.y_step[3] };
    for (i, group) in groups.iter().enumerate() {
        let next = groups.get(i + 1).map_or(&[][..], |next| &lines[next.clone()]);
        // SAFETY: the lines lie inside the box, whose inputs and outputs were checked above, as was dw's length.
        unsafe { problem.sum_group(&lines[group.clone()], next, dw, i > 0, panel) };
    }
}

/// Lists the box as lines of at most `GROUP` outputs along its last dimension, and as groups of lines.
fn list_lines(sweep: &Sweep, lines: &mut Vec<Line>, groups: &mut Vec<Range<usize>>) {
    lines.clear();
    groups.clear();
    let [n, d, h, w] = sweep.extent;
    let cuts = w.div_ceil(GROUP);
    let (mut first, mut outputs) = (0, 0);
    for outer in 0..n * d * h {
        let at = [outer / (d * h), outer / h % d, outer % h];
        let x = sweep.x0 + (0..3).map(|i| at[i] * sweep.x_step[i]).sum::<usize>();
        let y = sweep.y0 + (0..3).map(|i| at[i] * sweep.y_step[i]).sum::<usize>();
        for cut in 0..cuts {
            let (lo, hi) = (cut * w / cuts, (cut + 1) * w / cuts);
            if outputs + hi - lo > GROUP {
                groups.push(first..lines.len());
                (first, outputs) = (lines.len(), 0);
            }
            outputs += hi - lo;
            lines.push(Line { x: x + lo * sweep.x_step[3], y: y + lo * sweep.y_step[3], len: hi - lo });
        }
    }
    groups.push(first..lines.len());
}

/// What all groups of outputs have in common.
struct Problem<'a, T: 'static> {
    kernels: &'a Kernels<T>,
    x: &'a [T],
    dy: &'a [T],
    rows: &'a [usize],
    run: usize,
    channels: usize,
    x_step: usize,
    y_step: usize,
}

impl<T: Real> Problem<'_, T> {
    /// Sums over one group of outputs, and asks for the memory of the `next` meanwhile.
    ///
    /// # Safety
    /// All inputs and gradients of the lines lie inside `x` and `dy`; `dw` has `rows * run * channels` elements.
    unsafe fn sum_group(&self, lines: &[Line], next: &[Line], dw: &mut [T], add: bool, panel: &mut Aligned<T>) {
        let Problem { kernels, x, dy, rows, run, channels, .. } = *self;
        let outputs = next.iter().map(|l| l.len).sum::<usize>();
        let mut ahead = next.iter().flat_map(|line| (0..line.len).map(move |i| (line, i)));
        for block in (Blocks { channels, lanes: kernels.lanes }).all() {
            let width = block.vecs * kernels.lanes;
            self.fill_panel(lines, &dy[block.first..], width, block.existing(kernels.lanes), panel);
            let by_rows = kernels.weights[block.vecs - 1];
            let tiles = run.div_ceil(by_rows.len());
            let share = outputs.div_ceil(rows.len() * tiles);
            for (i, row) in rows.iter().enumerate() {
                for t in 0..tiles {
                    let (lo, hi) = (t * run / tiles, (t + 1) * run / tiles);
                    ahead.by_ref().take(share).for_each(|(line, i)| self.prefetch_output(line, i));
                    let tile = WeightTile {
                        x: x[row + lo..].as_ptr(),
                        x_step: self.x_step,
                        lines,
                        dy: panel.as_slice().as_ptr(),
                        dw: dw[(i * run + lo) * channels + block.first..].as_mut_ptr(),
                        dw_step: channels,
                        tail: block.tail,
                        add,
                    };
                    // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                    unsafe { by_rows[hi - lo - 1](&tile) }
                }
            }
        }
    }

    /// Copies the gradients of the lines' outputs, `existing` channels each, to `[outputs][width]`; what lies in the
    /// other lanes is never used.
    fn fill_panel(&self, lines: &[Line], dy: &[T], width: usize, existing: usize, panel: &mut Aligned<T>) {
        panel.resize(lines.iter().map(|l| l.len).sum::<usize>() * width);
        let mut to = panel.as_mut_slice();
        for line in lines {
            let (here, rest) = to.split_at_mut(line.len * width);
            for (to, from) in here.chunks_exact_mut(width).zip(dy[line.y..].chunks(self.y_step)) {
                copy(&mut to[..existing], from);
            }
            to = rest;
        }
    }

    /// Asks for the gradients of an output and for the last of its inputs (the others were used by earlier lines).
    fn prefetch_output(&self, line: &Line, i: usize) {
        let per_line = 64 / T::BYTES;
        let dy = self.dy[line.y + i * self.y_step..].as_ptr();
        (0..self.channels).step_by(per_line).for_each(|c| prefetch(dy.wrapping_add(c)));
        let x = self.x[line.x + i * self.x_step + self.rows[self.rows.len() - 1]..].as_ptr();
        (0..self.x_step).step_by(per_line).for_each(|c| prefetch(x.wrapping_add(c)));
    }
}
