//! Drives the `weights` tiles: the weight gradient over a box of outputs.
//!
//! Loop nest: group of outputs / block of output channels / run of the reduction / tile. A group's gradients are copied
//! to a contiguous panel, which stays in the first-level cache while all tiles of the reduction walk along it.

use super::dispatch::Kernels;
use super::gather::Sweep;
use super::pack::{Aligned, Blocks};
use super::tile::{Line, WeightTile};
use shardmark_tensor::Real;

/// Outputs of a group: sums over a group are added to the gradient, so the group also bounds the rounding error.
const GROUP: usize = 192;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: Vec<Line>,
    panel: Aligned<T>,
}

/// Adds the gradient of the weights `[rows * run][channels]` over the outputs of a box.
pub(super) fn add<T: Real>(
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
    if sweep.is_empty() || run == 0 {
        return;
    }
    let (last_x, last_y) = sweep.last();
    let reach = rows.iter().max().map_or(0, |r| r + run);
    assert!(last_x + reach <= x.len() && last_y + channels <= dy.len(), "a sweep stays inside its arrays");
    assert_eq!(dw.len(), rows.len() * run * channels, "a weight gradient has an element for every weight");
    // Long lines amortise their start; W unless it is short.
    let longest = (0..4).max_by_key(|&i| sweep.extent[i]).unwrap_or(3);
    let sweep = sweep.with_last(if sweep.extent[3] >= 4 { 3 } else { longest });
    let mut lines = std::mem::take(&mut scratch.lines);
    let mut outputs = 0;
    let flush = |lines: &mut Vec<Line>, dw: &mut [T], panel: &mut Aligned<T>| {
        // SAFETY: the lines lie inside the box, whose inputs and outputs were checked above, as was dw's length.
        unsafe { add_group(kernels, &sweep, lines, x, dy, rows, run, channels, dw, panel) };
        lines.clear();
    };
    for_each_line(&sweep, |line| {
        if outputs + line.len > GROUP && outputs > 0 {
            flush(&mut lines, dw, &mut scratch.panel);
            outputs = 0;
        }
        outputs += line.len;
        lines.push(line);
    });
    flush(&mut lines, dw, &mut scratch.panel);
    scratch.lines = lines;
}

/// Visits the box as lines of at most `GROUP` outputs along its last dimension.
fn for_each_line(sweep: &Sweep, mut visit: impl FnMut(Line)) {
    let [n, d, h, w] = sweep.extent;
    let cuts = w.div_ceil(GROUP);
    for outer in 0..n * d * h {
        let at = [outer / (d * h), outer / h % d, outer % h];
        let x = sweep.x0 + (0..3).map(|i| at[i] * sweep.x_step[i]).sum::<usize>();
        let y = sweep.y0 + (0..3).map(|i| at[i] * sweep.y_step[i]).sum::<usize>();
        for cut in 0..cuts {
            let (lo, hi) = (cut * w / cuts, (cut + 1) * w / cuts);
            visit(Line { x: x + lo * sweep.x_step[3], y: y + lo * sweep.y_step[3], len: hi - lo });
        }
    }
}

/// Adds one group of outputs.
///
/// # Safety
/// All inputs and gradients of the lines lie inside `x` and `dy`; `dw` has `rows * run * channels` elements.
unsafe fn add_group<T: Real>(
    kernels: &Kernels<T>,
    sweep: &Sweep,
    lines: &[Line],
    x: &[T],
    dy: &[T],
    rows: &[usize],
    run: usize,
    channels: usize,
    dw: &mut [T],
    panel: &mut Aligned<T>,
) {
    for block in (Blocks { channels, lanes: kernels.lanes }).all() {
        let width = block.vecs * kernels.lanes;
        let existing = width - kernels.lanes + block.tail;
        fill_panel(sweep, lines, &dy[block.first..], width, existing, panel);
        let by_rows = kernels.weights[block.vecs - 1];
        let tiles = run.div_ceil(by_rows.len());
        for (i, row) in rows.iter().enumerate() {
            for t in 0..tiles {
                let (lo, hi) = (t * run / tiles, (t + 1) * run / tiles);
                let tile = WeightTile {
                    x: x[row + lo..].as_ptr(),
                    x_step: sweep.x_step[3],
                    lines,
                    dy: panel.as_slice().as_ptr(),
                    dw: dw[(i * run + lo) * channels + block.first..].as_mut_ptr(),
                    dw_step: channels,
                    tail: block.tail,
                };
                // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                unsafe { by_rows[hi - lo - 1](&tile) }
            }
        }
    }
}

/// Copies the gradients of the lines' outputs, `existing` channels each, to `[outputs][width]`; the rest is zero.
fn fill_panel<T: Real>(sweep: &Sweep, lines: &[Line], dy: &[T], width: usize, existing: usize, panel: &mut Aligned<T>) {
    panel.resize(lines.iter().map(|l| l.len).sum::<usize>() * width);
    let mut to = panel.as_mut_slice().chunks_exact_mut(width);
    for line in lines {
        for (i, to) in to.by_ref().take(line.len).enumerate() {
            let from = line.y + i * sweep.y_step[3];
            to[..existing].copy_from_slice(&dy[from..from + existing]);
            to[existing..].fill(T::ZERO);
        }
    }
}
