//! Drives the `weights` tiles: the weight gradient over a box of outputs.
//!
//! Loop nest: group of outputs / block of output channels / run of the reduction / tile. A group's gradients are copied
//! to a contiguous panel, which stays in the first-level cache while all tiles of the reduction walk along it.
//!
//! What a team shares, by sizes alone: chunks of the outputs, each summed into a gradient of its own while that is small
//! beside the outputs; and blocks and rows of the gradient where chunks are few.

use super::dispatch::Kernels;
use super::gather::Sweep;
use super::pack::{Aligned, Blocks, ChannelBlock, copy};
use super::simd::prefetch;
use super::tile::{Line, WeightTile};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Outputs of a group: sums over a group are added to the gradient, so the group also bounds the rounding error.
const GROUP: usize = 192;
/// The same for a gradient that does not stay in the second-level cache from group to group.
const LONG_GROUP: usize = 512;
/// Bytes of a gradient that does.
const CACHED: usize = 1 << 20;
/// Parts that are enough for a team.
const PARTS: usize = 8;
/// Outputs that are worth a gradient of their own.
const CHUNK: usize = 4096;
/// Bytes of all gradients of chunks.
const CHUNK_BYTES: usize = 16 << 20;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: Vec<Line>,
    groups: Vec<Range<usize>>,
    /// Gradients of all chunks but the first.
    partial: Vec<T>,
    panels: PerThread<Aligned<T>>,
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
    team: &Team,
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
    let Scratch { lines, groups, partial, panels } = scratch;
    panels.fit(team);
    let bytes = std::mem::size_of_val(dw);
    list_lines(&sweep, if bytes > CACHED { LONG_GROUP } else { GROUP }, lines, groups);
    let blocks = Blocks { channels, lanes: kernels.lanes };
    let outputs = sweep.extent.iter().product();
    let split = Split::new(outputs, bytes, groups.len(), blocks.all().count(), rows.len());
    let len = dw.len();
    if partial.len() < len * (split.chunks - 1) {
        partial.resize(len * (split.chunks - 1), T::ZERO);
    }
    let problem = Problem { kernels, x, dy, rows, run, blocks, x_step: sweep.x_step[3], y_step: sweep.y_step[3] };
    let (first, others) = (SharedMut::new(dw), SharedMut::new(partial));
    team.run(split.parts(), |thread, part| {
        let (chunk, blocks, rows) = split.part(part);
        // SAFETY: parts of a chunk write different elements of its gradient.
        let dw = unsafe {
            if chunk == 0 { first.as_mut_ptr() } else { others.part((chunk - 1) * len..chunk * len).as_mut_ptr() }
        };
        let cut = |chunk: usize| chunk * groups.len() / split.chunks;
        let groups = &groups[cut(chunk)..cut(chunk + 1)];
        for (i, group) in groups.iter().enumerate() {
            let next = groups.get(i + 1).map_or(&[][..], |next| &lines[next.clone()]);
            let (blocks, rows, panel) = (blocks.clone(), rows.clone(), &mut panels.of(thread));
            // SAFETY: the lines lie inside the box, whose inputs and outputs were checked above, as was dw's length.
            unsafe { problem.sum_group(&lines[group.clone()], next, blocks, rows, dw, i > 0, panel) };
        }
    });
    add_partials(&first, &others, split.chunks - 1, team);
}

/// Adds gradients of chunks to the first, in order.
fn add_partials<T: Real>(first: &SharedMut<T>, others: &SharedMut<T>, count: usize, team: &Team) {
    const STRETCH: usize = 1 << 14;
    if count == 0 {
        return;
    }
    let len = first.len();
    team.run(len.div_ceil(STRETCH), |_, part| {
        let stretch = part * STRETCH..len.min((part + 1) * STRETCH);
        // SAFETY: stretches do not overlap, and the partial sums are only read.
        let sum = unsafe { first.part(stretch.clone()) };
        for i in 0..count {
            // SAFETY: as above.
            let other = unsafe { others.part(i * len + stretch.start..i * len + stretch.end) };
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += *other);
        }
    });
}

/// How the work is cut into parts.
struct Split {
    chunks: usize,
    /// Blocks of channels, and the ranges that they are cut into.
    blocks: [usize; 2],
    /// The same for the rows of the reduction.
    rows: [usize; 2],
}

impl Split {
    fn new(outputs: usize, bytes: usize, groups: usize, blocks: usize, rows: usize) -> Self {
        let most = (CHUNK_BYTES / bytes).clamp(1, 2 * PARTS);
        let chunks = (outputs / CHUNK).clamp(1, most).min(groups);
        let block_ranges = blocks.min(PARTS.div_ceil(chunks));
        let row_ranges = rows.min(PARTS.div_ceil(chunks * block_ranges));
        Split { chunks, blocks: [blocks, block_ranges], rows: [rows, row_ranges] }
    }

    fn parts(&self) -> usize {
        self.chunks * self.blocks[1] * self.rows[1]
    }

    /// Chunk, blocks and rows of a part.
    fn part(&self, part: usize) -> (usize, Range<usize>, Range<usize>) {
        let cut = |[count, ranges]: [usize; 2], i: usize| i * count / ranges..(i + 1) * count / ranges;
        let (ranges, row) = (part / self.rows[1], part % self.rows[1]);
        (ranges / self.blocks[1], cut(self.blocks, ranges % self.blocks[1]), cut(self.rows, row))
    }
}

/// Lists the box as lines of at most `most` outputs along its last dimension, and as groups of lines with as many.
fn list_lines(sweep: &Sweep, most: usize, lines: &mut Vec<Line>, groups: &mut Vec<Range<usize>>) {
    lines.clear();
    groups.clear();
    let [n, d, h, w] = sweep.extent;
    let cuts = w.div_ceil(most);
    let (mut first, mut outputs) = (0, 0);
    for outer in 0..n * d * h {
        let at = [outer / (d * h), outer / h % d, outer % h];
        let x = sweep.x0 + (0..3).map(|i| at[i] * sweep.x_step[i]).sum::<usize>();
        let y = sweep.y0 + (0..3).map(|i| at[i] * sweep.y_step[i]).sum::<usize>();
        for cut in 0..cuts {
            let (lo, hi) = (cut * w / cuts, (cut + 1) * w / cuts);
            if outputs + hi - lo > most {
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
    blocks: Blocks,
    x_step: usize,
    y_step: usize,
}

impl<T: Real> Problem<'_, T> {
    /// Sums over one group of outputs into some blocks and rows of `dw`, and asks for the memory of the `next` meanwhile.
    ///
    /// # Safety
    /// All inputs and gradients of the lines lie inside `x` and `dy`; `dw` has `rows * run * channels` elements, and nobody
    /// else touches those of these blocks and rows.
    unsafe fn sum_group(
        &self,
        lines: &[Line],
        next: &[Line],
        blocks: Range<usize>,
        rows: Range<usize>,
        dw: *mut T,
        add: bool,
        panel: &mut Aligned<T>,
    ) {
        let Problem { kernels, x, dy, run, blocks: Blocks { channels, lanes }, .. } = *self;
        let outputs = next.iter().map(|l| l.len).sum::<usize>();
        for block in self.blocks.all().skip(blocks.start).take(blocks.len()) {
            let width = block.vecs * lanes;
            self.fill_panel(lines, &dy[block.first..], width, block.existing(lanes), panel);
            let by_rows = kernels.weights[block.vecs - 1];
            let tiles = run.div_ceil(by_rows.len());
            let share = outputs.div_ceil(rows.len() * tiles);
            let mut ahead = next.iter().flat_map(|line| (0..line.len).map(move |i| (line, i)));
            for row in rows.clone() {
                for t in 0..tiles {
                    let (lo, hi) = (t * run / tiles, (t + 1) * run / tiles);
                    ahead.by_ref().take(share).for_each(|(line, i)| self.prefetch_output(line, i, &block));
                    let tile = WeightTile {
                        x: x[self.rows[row] + lo..].as_ptr(),
                        x_step: self.x_step,
                        lines,
                        dy: panel.as_slice().as_ptr(),
                        // SAFETY: an element of dw.
                        dw: unsafe { dw.add((row * run + lo) * channels + block.first) },
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

    /// Asks for the gradients of an output in a block and, with the first block, for the last of its inputs (the others
    /// were used by earlier lines).
    fn prefetch_output(&self, line: &Line, i: usize, block: &ChannelBlock) {
        let per_line = 64 / T::BYTES;
        let dy = self.dy[line.y + i * self.y_step + block.first..].as_ptr();
        (0..block.vecs * self.blocks.lanes).step_by(per_line).for_each(|c| prefetch(dy.wrapping_add(c)));
        if block.first == 0 {
            let x = self.x[line.x + i * self.x_step + self.rows[self.rows.len() - 1]..].as_ptr();
            (0..self.x_step).step_by(per_line).for_each(|c| prefetch(x.wrapping_add(c)));
        }
    }
}
