//! Drives the `weights` tiles: the weight gradient over a box of outputs.
//!
//! Where neighbouring outputs share inputs (kernels wider than their stride): group of outputs / block of output
//! channels / run of the reduction / tile. A group's gradients are copied to a contiguous panel, which stays in the
//! first-level cache while all tiles of the reduction walk along it. Where they share none (1x1, dense, 2x2 at stride 2)
//! the inputs of a tile are copied too if many blocks read them, or a power of two of channels would put all outputs'
//! inputs into the same few sets of the caches: group / tile of the reduction / block, with the panels of all blocks in the
//! second-level cache. So it is where outputs are few: the gradient is then written in the order of memory. Tiles ask for
//! the memory of the next group, a line of the cache with each output: many requests at once would stop the sums until all
//! are there.
//!
//! What a team shares, by sizes alone: chunks of the outputs, each summed into a gradient of its own while that is small
//! beside the outputs; and blocks and rows of the gradient where chunks are few.

mod apart;
mod taps;
mod tile;

use super::cut::{Line, Split, list_lines, strips};
use super::dispatch::{Kernels, MAX_VECS};
use super::fill::{Panel, Run};
use super::pack::{Aligned, Blocks, ChannelBlock};
use super::sweep::Sweep;
use crate::simd::prefetch;
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;
pub(super) use taps::{TapsTile, weights_taps};
use tile::{PIECE, PIECE_LINES};
pub(super) use tile::{WeightTile, weights};

/// Outputs of a group: sums over a group are added to the gradient, so the group also bounds the rounding error.
const GROUP: usize = 192;
/// The same for a gradient that does not stay in the second-level cache from group to group.
const LONG_GROUP: usize = 512;
/// Bytes of a gradient that does.
const CACHED: usize = 1 << 20;
/// Outputs so few that a gradient is written as fast as memory takes it: in whole rows, not block by block.
const FEW_OUTPUTS: usize = 32;
/// Blocks that are worth copying the inputs that they share, ...
const BLOCKS_APART: usize = 2;
/// ... and the same where outputs are few.
const BLOCKS_FEW_OUTPUTS: usize = 4;
/// Input channels from which on no tile lies across two taps, and those of the same channels follow each other: what one
/// has loaded is there for the next.
const CHANNELS_BY_TAP: usize = 48;
/// Channels whose panels stay in the second-level cache.
const WIDE: usize = 1024;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    lines: Vec<Line>,
    groups: Vec<Range<usize>>,
    /// Gradients of all chunks but the first.
    partial: Vec<T>,
    panels: PerThread<Panels<T>>,
}

/// Copies of a group's gradients and of a tile's inputs.
#[derive(Default)]
struct Panels<T> {
    dy: Aligned<T>,
    x: Aligned<T>,
    /// How they are cut.
    cut: Vec<Panel>,
    /// Addresses of what the next group reads.
    ahead: Vec<usize>,
}

/// Overwrites `dw` with the gradient of the weights `[rows * run][channels]`, the sum over the outputs of a box; a run is
/// that of `taps` taps.
pub(super) fn sum<T: Real>(
    kernels: &Kernels<T>,
    sweep: &Sweep,
    x: &[T],
    dy: &[T],
    rows: &[usize],
    [taps, run]: [usize; 2],
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
    let blocks = Blocks { channels, lanes: kernels.lanes };
    let outputs = sweep.outputs();
    let apart = match sweep.x_step[3] >= run {
        true => blocks.count() >= BLOCKS_APART,
        false => outputs <= FEW_OUTPUTS && blocks.count() >= BLOCKS_FEW_OUTPUTS,
    };
    let most = match bytes > CACHED {
        _ if apart => GROUP,
        true => LONG_GROUP,
        false if channels <= kernels.lanes => 2 * GROUP,
        false => GROUP,
    };
    list_lines(&sweep, most, lines, groups);
    let split = if apart {
        let strips = rows.len() * strips(kernels, run).len();
        let blocks = [blocks.count(), channels.div_ceil(WIDE)];
        Split::apart(outputs, bytes, groups.len(), blocks, strips)
    } else {
        Split::shared(outputs, bytes, groups.len(), blocks.count(), rows.len())
    };
    let len = dw.len();
    if partial.len() < len * (split.chunks - 1) {
        partial.resize(len * (split.chunks - 1), T::ZERO);
    }
    let taps = if run / taps >= CHANNELS_BY_TAP { taps } else { 1 };
    let problem = Problem { kernels, x, dy, rows, taps, run, blocks, x_step: sweep.x_step[3], y_step: sweep.y_step[3] };
    let (first, others) = (SharedMut::new(dw), SharedMut::new(partial));
    team.run(split.parts(), |thread, part| {
        let (chunk, blocks, rows) = split.part(part);
        let dw = match chunk.checked_sub(1) {
            None => first.as_mut_ptr(),
            // SAFETY: the gradient of each chunk but the first has its place there.
            Some(other) => unsafe { others.as_mut_ptr().add(other * len) },
        };
        let cut = |chunk: usize| chunk * groups.len() / split.chunks;
        let groups = &groups[cut(chunk)..cut(chunk + 1)];
        for (i, group) in groups.iter().enumerate() {
            let next = groups.get(i + 1).map_or(&[][..], |next| &lines[next.clone()]);
            let target = Target { blocks: blocks.clone(), rows: rows.clone(), dw, add: i > 0 };
            let (group, panels) = (Group { lines: &lines[group.clone()], next }, &mut panels.of(thread));
            // SAFETY: the lines lie inside the box, whose inputs and outputs were checked above, as was dw's length; parts of a
            // chunk write different elements of its gradient.
            unsafe {
                if apart {
                    problem.sum_apart(&group, &target, panels)
                } else {
                    problem.sum_group(&group, &target, panels)
                }
            }
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

/// What all groups of outputs have in common.
struct Problem<'a, T: 'static> {
    kernels: &'a Kernels<T>,
    x: &'a [T],
    dy: &'a [T],
    rows: &'a [usize],
    /// Parts of a run that are cut into tiles on their own.
    taps: usize,
    run: usize,
    blocks: Blocks,
    x_step: usize,
    y_step: usize,
}

/// Outputs whose contributions are summed, and those that come after them.
struct Group<'a> {
    lines: &'a [Line],
    next: &'a [Line],
}

impl Group<'_> {
    /// Number of outputs.
    fn len(&self) -> usize {
        self.lines.iter().map(|l| l.len).sum()
    }

    /// The outputs that come next, `share` at a time.
    fn ahead(&self) -> impl Iterator<Item = (&Line, usize)> {
        self.next.iter().flat_map(|line| (0..line.len).map(move |i| (line, i)))
    }

    /// How many of them fall to each of `times`.
    fn share(&self, times: usize) -> usize {
        self.next.iter().map(|l| l.len).sum::<usize>().div_ceil(times)
    }
}

/// The part of a gradient that is written.
struct Target<T> {
    blocks: Range<usize>,
    /// Rows of the reduction, or strips where outputs share no inputs or are few.
    rows: Range<usize>,
    dw: *mut T,
    /// Whether to add to it, or to overwrite it.
    add: bool,
}

impl<T: Real> Problem<'_, T> {
    /// Sums over one group of outputs, which share inputs, and asks for the memory of the next meanwhile.
    ///
    /// # Safety
    /// All inputs and gradients of the lines lie inside `x` and `dy`; `dw` has `rows * run * channels` elements, and nobody
    /// else touches those of the target's blocks and rows.
    unsafe fn sum_group(&self, group: &Group, target: &Target<T>, panels: &mut Panels<T>) {
        let Problem { kernels, x, taps, run, blocks: Blocks { channels, lanes }, .. } = *self;
        let outputs = group.len();
        let blocks = || self.blocks.all().skip(target.blocks.start).take(target.blocks.len());
        let mut list = std::mem::take(&mut panels.ahead);
        list.clear();
        if blocks().any(|block| !self.by_taps(block.vecs, group.lines)) {
            // What neighbours share is there already, but for one step in the last row.
            let last = target.rows.end - 1..target.rows.end;
            let (new, len) = if self.x_step < run { (last, self.x_step) } else { (target.rows.clone(), run) };
            let runs = new.map(|row| self.rows[row]..self.rows[row] + len);
            self.list_ahead(group.next, &target.blocks, runs, &mut list);
        }
        let mut ahead = list.chunks(outputs.div_ceil(PIECE_LINES));
        for (i, block) in blocks().enumerate() {
            if self.by_taps(block.vecs, group.lines) {
                // The first block asks for the inputs, which all of them read.
                // SAFETY: by this function's contract.
                unsafe { self.sum_taps(group, target, block, i == 0, panels) };
                continue;
            }
            let width = block.vecs * lanes;
            panels.dy.resize(outputs * width);
            // SAFETY: by this function's contract.
            unsafe { self.fill_panel(group.lines, &block, panels.dy.as_mut_slice().as_mut_ptr()) };
            let by_rows = kernels.weights[block.vecs - 1];
            let per_tap = run / taps;
            let tiles = per_tap.div_ceil(by_rows.len());
            for row in target.rows.clone() {
                for t in 0..tiles * taps {
                    let (tile, tap) = (t / taps, t % taps);
                    let [lo, hi] = [tile, tile + 1].map(|tile| tap * per_tap + tile * per_tap / tiles);
                    let tile = WeightTile {
                        x: x[self.rows[row] + lo..].as_ptr(),
                        x_step: self.x_step,
                        lines: group.lines,
                        dy: panels.dy.as_slice().as_ptr(),
                        // SAFETY: an element of dw.
                        dw: unsafe { target.dw.add((row * run + lo) * channels + block.first) },
                        dw_step: channels,
                        tail: block.tail,
                        add: target.add,
                        ahead: ahead.next().unwrap_or(&[]),
                    };
                    // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                    unsafe { by_rows[hi - lo - 1](&tile) }
                }
            }
        }
        panels.ahead = list;
    }

    /// Copies the gradients of the lines' outputs, the channels of a block, to `[outputs][width]`; what lies in the other
    /// lanes is never used.
    ///
    /// # Safety
    /// All gradients of the lines lie inside `dy`; `to` has room for them.
    unsafe fn fill_panel(&self, lines: &[Line], block: &ChannelBlock, mut to: *mut T) {
        let width = block.vecs * self.blocks.lanes;
        for line in lines {
            let from = self.dy[line.y + block.first..].as_ptr();
            let channels = block.existing(self.blocks.lanes);
            let run = Run { from, from_step: self.y_step, to, to_step: width, len: line.len, channels };
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe {
                (self.kernels.rows)(&run);
                to = to.add(line.len * width);
            }
        }
    }

    /// Lists the memory of the gradients of some blocks and of the inputs at `runs` from the first of every output.
    fn list_ahead(
        &self,
        lines: &[Line],
        blocks: &Range<usize>,
        runs: impl Iterator<Item = Range<usize>>,
        list: &mut Vec<usize>,
    ) {
        let mut add = |from: &[T], count: usize, step: usize, len: usize| {
            let (count, len) = if step == len { (1, count * len) } else { (count, len) };
            for i in 0..count {
                let first = from.as_ptr().addr() + i * step * T::BYTES;
                list.extend((first..first + len * T::BYTES).step_by(PIECE));
            }
        };
        let width = MAX_VECS * self.blocks.lanes;
        let channels = blocks.start * width..self.blocks.channels.min(blocks.end * width);
        for line in lines {
            add(&self.dy[line.y + channels.start..], line.len, self.y_step, channels.len());
        }
        for run in runs {
            for line in lines {
                add(&self.x[line.x + run.start..], line.len, self.x_step, run.len());
            }
        }
    }

    /// Asks for the memory of an output's gradients.
    fn prefetch_gradients(&self, line: &Line, i: usize, channels: Range<usize>) {
        let dy = self.dy[line.y + i * self.y_step..].as_ptr();
        channels.step_by(64 / T::BYTES).for_each(|c| prefetch(dy.wrapping_add(c)));
    }

    /// Asks for the memory of an output's inputs in the last row, of which one step is new.
    fn prefetch_inputs(&self, line: &Line, i: usize) {
        let x = self.x[line.x + i * self.x_step + self.rows[self.rows.len() - 1]..].as_ptr();
        (0..self.x_step).step_by(64 / T::BYTES).for_each(|c| prefetch(x.wrapping_add(c)));
    }
}
