//! The weight gradient from points: for a chunk of tiles the points of inputs and of output gradients, at every point the
//! product `[C x tiles] [tiles x K]`, and from the sums of all chunks the gradients of filters.
//!
//! What a team shares, by sizes alone: groups of chunks, each with sums of its own while these are small; and ranges of
//! output channels where groups are few.

use super::super::cut::{Line, PARTS, ranges};
use super::super::dispatch::Kernels;
use super::super::pack::{Aligned, Blocks};
use super::super::sweep::Sweep;
use super::super::weights::WeightTile;
use super::chunks::{Chunk, Layout, Tiling};
use super::{Axes, Filters, POINTS, TAPS};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Most tiles of a chunk: the gradients of a block at a point stay in the first-level cache.
const ROWS: usize = 64;
/// Bytes of all groups' sums.
const SUMS: usize = 4 << 20;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(in super::super) struct Gradient<T> {
    /// `[group][POINTS][tap along D][C][K]`.
    sums: Aligned<T>,
    threads: PerThread<Buffers<T>>,
}

#[derive(Default)]
struct Buffers<T> {
    inputs: Aligned<T>,
    gradients: Aligned<T>,
    lines: Vec<Line>,
}

/// Arrays and sizes of one weight gradient.
struct Problem<'a, T: Real> {
    kernels: &'static Kernels<T>,
    tiling: Tiling,
    x: &'a [T],
    dy: &'a [T],
    blocks: Blocks,
    /// Elements from one point of the sums to the next.
    point_step: usize,
}

/// Overwrites `dw` (`[KD, KH, KW, C, K]`) with the sum over a box of outputs whose first has the global coordinates `first`
/// along D, H and W.
pub(in super::super) fn sum<T: Real>(
    kernels: &'static Kernels<T>,
    (axes, sweep, first): (Axes, Sweep, [i64; 3]),
    x: &[T],
    dy: &[T],
    [channels, k]: [usize; 2],
    dw: &mut [T],
    team: &Team,
    scratch: &mut Gradient<T>,
) {
    let taps = dw.len() / (TAPS * TAPS * channels * k);
    let tiling = Tiling::new(axes, &sweep, first, [taps, channels]);
    let (last_x, last_y) = tiling.last();
    assert!(last_x + channels <= x.len() && last_y + k <= dy.len(), "a sweep stays inside its arrays");
    assert_eq!(dw.len(), taps * TAPS * TAPS * channels * k, "a weight gradient has an element for every weight");
    let blocks = Blocks { channels: k, lanes: kernels.lanes };
    let chunks = tiling.chunks::<T>(kernels.lanes, ROWS);
    let sums = Layout::new::<T>(1, taps * channels, blocks.padded());
    let groups = (SUMS / (sums.len() * T::BYTES)).clamp(1, PARTS).min(chunks.len());
    let block_ranges = ranges(blocks.count(), PARTS.div_ceil(groups));
    let Gradient { sums: all, threads } = scratch;
    threads.fit(team);
    all.resize(groups * sums.len());
    let problem = Problem { kernels, tiling, x, dy, blocks, point_step: sums.point };
    let shared = SharedMut::new(all.as_mut_slice());
    team.run(groups * block_ranges, |thread, part| {
        let (group, range) = (part % groups, part / groups);
        let own = range * blocks.count() / block_ranges..(range + 1) * blocks.count() / block_ranges;
        let group_chunks = group * chunks.len() / groups..(group + 1) * chunks.len() / groups;
        let to = shared.as_mut_ptr().wrapping_add(group * sums.len());
        for (i, chunk) in group_chunks.map(|i| chunks.get(i)).enumerate() {
            // SAFETY: the box was checked against the arrays above; parts write different sums.
            unsafe { problem.add_chunk(&chunk, own.clone(), to, i > 0, &mut threads.of(thread)) }
        }
    });
    problem.finish(dw, all.as_slice(), [sums.len(), groups], team);
}

impl<T: Real> Problem<'_, T> {
    /// Adds the products of a chunk to the sums of some blocks of output channels, or overwrites these.
    ///
    /// # Safety
    /// All inputs and outputs of the tiling lie inside `x` and `dy`; nobody else touches the sums of these blocks.
    unsafe fn add_chunk(&self, chunk: &Chunk, blocks: Range<usize>, sums: *mut T, add: bool, buffers: &mut Buffers<T>) {
        let Problem { kernels, tiling, .. } = *self;
        let (columns, line) = (chunk.columns.len(), chunk.line.len());
        let layout = Layout::new::<T>(columns, line + tiling.taps - 1, tiling.row::<T>(kernels.lanes));
        let Buffers { inputs, gradients, lines } = buffers;
        inputs.resize(layout.len());
        // SAFETY: by this function's contract; there is room for all points.
        unsafe { tiling.put_inputs(kernels, self.x, chunk, layout, inputs.as_mut_slice().as_mut_ptr()) }
        lines.clear();
        if tiling.has_line() {
            lines.extend((0..columns).map(|column| Line { x: column * layout.column, y: 0, len: line }));
        } else {
            lines.push(Line { x: 0, y: 0, len: columns });
        }
        let x = inputs.as_slice().as_ptr();
        for block in self.blocks.all().take(blocks.end).skip(blocks.start) {
            let own = [block.first, block.existing(kernels.lanes)];
            let dy_layout = Layout::new::<T>(columns, line, block.vecs * kernels.lanes);
            gradients.resize(dy_layout.len());
            let points = gradients.as_mut_slice().as_mut_ptr();
            let dy = self.dy.as_ptr().cast_mut();
            tiling.each_output(dy, own, chunk, dy_layout, points, (std::ptr::null(), T::ONE, false), |tiles| {
                // SAFETY: by this function's contract, and gradients are only read; there is room for all points.
                unsafe { (kernels.winograd.gradients)(tiles) }
            });
            for point in 0..POINTS {
                let x = x.wrapping_add(point * layout.point);
                let dy = points.wrapping_add(point * dy_layout.point);
                let to = sums.wrapping_add(point * self.point_step + block.first);
                // SAFETY: by this function's contract.
                unsafe { self.add_point((x, layout.row), dy, lines, to, block.vecs, add) }
            }
        }
    }

    /// Adds the products of lines of inputs and of gradients at one point.
    ///
    /// # Safety
    /// The lines and the sums lie inside their arrays.
    unsafe fn add_point(
        &self,
        (x, x_step): (*const T, usize),
        dy: *const T,
        lines: &[Line],
        sums: *mut T,
        vecs: usize,
        add: bool,
    ) {
        let by_rows = self.kernels.weights[vecs - 1];
        let run = self.tiling.taps * self.tiling.channels;
        let tiles = run.div_ceil(by_rows.len());
        let dw_step = self.blocks.padded();
        for t in 0..tiles {
            let (first, end) = (t * run / tiles, (t + 1) * run / tiles);
            let tile = WeightTile {
                x: x.wrapping_add(first),
                x_step,
                lines,
                dy,
                dw: sums.wrapping_add(first * dw_step),
                dw_step,
                tail: self.kernels.lanes,
                add,
                ahead: &[],
            };
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe { by_rows[end - first - 1](&tile) }
        }
    }

    /// Transforms the sums of all groups to the gradients of filters.
    fn finish(&self, dw: &mut [T], sums: &[T], sets: [usize; 2], team: &Team) {
        let Problem { kernels, tiling, blocks: Blocks { channels: k, .. }, .. } = *self;
        let padded = self.blocks.padded();
        let rows = tiling.taps * tiling.channels;
        let parts = PARTS.min(rows);
        let dw = SharedMut::new(dw);
        team.run(parts, |_, part| {
            let (first, end) = (part * rows / parts, (part + 1) * rows / parts);
            let filters = Filters {
                taps: dw.as_mut_ptr().wrapping_add(first * k),
                tap_steps: [rows * k, k],
                points: sums[first * padded..].as_ptr().cast_mut(),
                point_steps: [self.point_step, padded],
                sets,
                len: k,
                rows: end - first,
            };
            // SAFETY: parts have gradients of their own; sums are only read, in whole vectors; the table holds kernels of an
            // available instruction set.
            unsafe { (kernels.winograd.filter_gradients)(&filters) }
        });
    }
}
