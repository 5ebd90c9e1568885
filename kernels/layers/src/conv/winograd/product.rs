//! Outputs from points: for a chunk of tiles the points of inputs, for a block of output channels their products with the
//! points of filters, and from these sums the outputs. Chunks, and blocks where chunks are few, are the parts that a team
//! shares.

use super::super::cut::PARTS;
use super::super::dispatch::{GatherFn, Kernels, MAX_VECS, outputs_per_segment};
use super::super::pack::{Aligned, ChannelBlock, Packed};
use super::super::reduction::SLICE_BYTES;
use super::super::sweep::Sweep;
use super::super::tile::{GatherTile, LONG, Piece, UNROLLED, by_taps};
use super::chunks::{Chunk, Layout, Tiling};
use super::{Axes, Filter, POINTS, line_taps};
use crate::store::{STREAMED_BESIDE_SUMS as STREAMED, fence};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;

/// Most tiles of a chunk: filters are read once for each chunk, and sums of a block stay in the second-level cache.
const ROWS: usize = 224;

/// What is computed.
pub(in super::super) struct Job<'a, T: Real> {
    pub axes: Axes,
    pub kernels: &'static Kernels<T>,
    pub sweep: Sweep,
    /// Global coordinates of the first output along D, H and W.
    pub first: [i64; 3],
    pub x: &'a [T],
    pub packed: &'a Packed<T>,
    pub filter: &'a Filter<T>,
    pub slope: T,
}

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(in super::super) struct Scratch<T> {
    threads: PerThread<Buffers<T>>,
    jobs: usize,
}

#[derive(Default)]
struct Buffers<T> {
    inputs: Aligned<T>,
    sums: Aligned<T>,
    zeros: Aligned<T>,
    /// Job and chunk whose inputs they are.
    id: (usize, usize),
}

/// Computes a job; every output by the same sums, whoever computes it.
pub(in super::super) fn multiply<T: Real>(job: &Job<T>, y: &mut [T], team: &Team, scratch: &mut Scratch<T>) {
    let Job { axes, kernels, sweep, first, x, packed, .. } = *job;
    if sweep.is_empty() {
        return;
    }
    let (blocks, inputs) = (packed.blocks, packed.inputs);
    let tiling = Tiling::new(axes, &sweep, first, [line_taps(&inputs), inputs.channels]);
    let (last_x, last_y) = tiling.last();
    assert!(
        last_x + inputs.channels <= x.len() && last_y + blocks.channels <= y.len(),
        "a sweep stays inside its arrays"
    );
    let chunks = tiling.chunks::<T>(kernels.lanes, ROWS);
    let count = blocks.count();
    let runs = PARTS.div_ceil(chunks.len()).min(count);
    scratch.threads.fit(team);
    scratch.jobs += 1;
    let (y, Scratch { threads, jobs }) = (SharedMut::new(y), &*scratch);
    team.run(chunks.len() * runs, |thread, part| {
        let (chunk, run) = (part / runs, part % runs);
        let id = (*jobs, chunk);
        let buffers = &mut *threads.of(thread);
        let chunk = chunks.get(chunk);
        let own = blocks.all().take((run + 1) * count / runs).skip(run * count / runs);
        // SAFETY: the box was checked against the arrays above; parts write different outputs.
        unsafe { run_part(job, &tiling, &chunk, own, &y, buffers, id) }
    });
}

/// Computes some blocks of a chunk.
///
/// # Safety
/// All inputs and outputs of the tiling lie inside `x` and `y`; nobody else touches the chunk's outputs of these blocks.
unsafe fn run_part<T: Real>(
    job: &Job<T>,
    tiling: &Tiling,
    chunk: &Chunk,
    blocks: impl Iterator<Item = ChannelBlock>,
    y: &SharedMut<T>,
    buffers: &mut Buffers<T>,
    id: (usize, usize),
) {
    let Job { kernels, packed, filter, slope, .. } = *job;
    let lanes = kernels.lanes;
    // Segments may reach beyond a line; what they read there is of no use.
    let positions = chunk.line.len().next_multiple_of(LONG) + tiling.taps - 1;
    let positions = if tiling.has_line() { positions } else { 1 };
    let layout = Layout::new::<T>(chunk.columns.len() + LONG, positions, tiling.row::<T>(lanes));
    if buffers.id != id {
        buffers.id = id;
        buffers.inputs.resize(layout.len());
        // SAFETY: by this function's contract; there is room for all points.
        unsafe { tiling.put_inputs(kernels, job.x, chunk, layout, buffers.inputs.as_mut_slice().as_mut_ptr()) }
    }
    let stream = y.len() * T::BYTES >= STREAMED;
    buffers.zeros.resize(MAX_VECS * lanes);
    buffers.zeros.as_mut_slice().fill(T::ZERO);
    for block in blocks {
        let products = Products::new(kernels, tiling, chunk, block, layout);
        buffers.sums.resize(products.sums.len());
        let weights = filter.block(block, lanes, tiling.taps * tiling.channels);
        // SAFETY: there is room for whole segments of inputs and of sums.
        unsafe { products.run(weights, buffers) }
        let start = (packed.start(block).as_ptr(), slope, stream);
        let sums = buffers.sums.as_mut_slice().as_mut_ptr();
        let own = [block.first, block.existing(lanes)];
        tiling.each_output(y.as_mut_ptr(), own, chunk, products.sums, sums, start, |tiles| {
            // SAFETY: by this function's contract; there are sums for all tiles.
            unsafe { (kernels.winograd.outputs)(tiles) }
        });
    }
    fence();
}

/// The products of a chunk with the filters of a block, at every point: outputs in segments along lines, or along columns
/// that are single tiles.
struct Products<T: 'static> {
    by_segments: &'static [GatherFn<T>],
    /// Outputs of a segment.
    per: usize,
    /// Segments, in groups of adjoining outputs, and of each group.
    segments: [usize; 2],
    inputs: Layout,
    /// Elements from one group of inputs to the next.
    group_step: usize,
    sums: Layout,
    /// Weights of an element of the reduction, which has so many.
    width: usize,
    elements: usize,
    /// Channels of a vector.
    lanes: usize,
}

impl<T: Real> Products<T> {
    fn new(kernels: &'static Kernels<T>, tiling: &Tiling, chunk: &Chunk, block: ChannelBlock, inputs: Layout) -> Self {
        let (columns, line) = (chunk.columns.len(), chunk.line.len());
        let (groups, outputs) = if tiling.has_line() { (columns, line) } else { (1, columns) };
        let taps = by_taps(block.vecs, tiling.taps);
        let (by_segments, per) = match (taps, outputs >= LONG) {
            (true, true) => (kernels.taps_long, LONG),
            (true, false) => (kernels.taps_single, 1),
            _ => (kernels.gather[block.vecs - 1], outputs_per_segment(block.vecs)),
        };
        let of_group = outputs.div_ceil(per);
        let channels = block.vecs * kernels.lanes;
        let sums = if tiling.has_line() {
            Layout::new::<T>(groups, of_group * per, channels)
        } else {
            Layout::new::<T>(of_group * per, 1, channels)
        };
        let (width, elements) =
            if taps { (tiling.taps * channels, tiling.channels) } else { (channels, tiling.taps * tiling.channels) };
        let segments = [groups * of_group, of_group];
        Products {
            by_segments,
            per,
            segments,
            inputs,
            group_step: inputs.column,
            sums,
            width,
            elements,
            lanes: kernels.lanes,
        }
    }

    /// Sums at every point.
    ///
    /// # Safety
    /// The buffers have room for whole segments; the kernels are those of an available instruction set.
    unsafe fn run(&self, weights: &[T], buffers: &mut Buffers<T>) {
        let Products { per, segments: [segments, of_group], width, elements, .. } = *self;
        let Buffers { inputs, sums, zeros, .. } = buffers;
        let inputs = inputs.as_slice().as_ptr();
        let tiles = segments.div_ceil(self.by_segments.len());
        let first_of = |tile: usize| tile * segments / tiles;
        let slices = (elements * width * T::BYTES).div_ceil(SLICE_BYTES).max(1);
        let mut tile = GatherTile::blank(inputs, self.inputs.row, UNROLLED * width / tiles, self.lanes);
        for point in 0..POINTS {
            for slice in 0..slices {
                let (offset, end) = (slice * elements / slices, (slice + 1) * elements / slices);
                let weights = &weights[(point * elements + offset) * width..][..(end - offset) * width];
                let pieces = [Piece { offset, len: end - offset }];
                tile.weights = weights.as_ptr();
                tile.start = if slice == 0 { zeros.as_slice().as_ptr() } else { std::ptr::null() };
                for t in 0..tiles {
                    // The weights that follow arrive in the second-level cache.
                    tile.ahead = weights.as_ptr().wrapping_add(weights.len() + t * weights.len() / tiles);
                    let members = first_of(t)..first_of(t + 1);
                    for (s, segment) in members.clone().enumerate() {
                        let (group, i) = (segment / of_group, segment % of_group);
                        let at = point * self.inputs.point + group * self.group_step + i * per * self.inputs.row;
                        tile.x[s] = inputs.wrapping_add(at);
                    }
                    let at = point * self.sums.point + members.start * per * self.sums.row;
                    tile.sums = sums.as_mut_slice()[at..].as_mut_ptr();
                    let tile = GatherTile { pieces: &pieces, ..tile };
                    // SAFETY: by this function's contract.
                    unsafe { self.by_segments[members.len() - 1](&tile) }
                }
            }
        }
    }
}
