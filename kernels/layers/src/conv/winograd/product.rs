//! Outputs from points: for a chunk of tiles the points of inputs, for a block of output channels their products with the
//! points of filters, and from these sums the outputs. Chunks, and blocks where chunks are few, are the parts that a team
//! shares.

use super::super::dispatch::{Kernels, MAX_VECS, outputs_per_segment};
use super::super::pack::{Aligned, ChannelBlock, Inputs, Packed, Reduction};
use super::super::sweep::Sweep;
use super::super::tile::{GatherTile, MAX_SEGS, UNROLLED};
use super::chunks::{Chunk, Layout, Tiling};
use super::{Filter, POINTS, TAPS};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;

/// Most tiles of a chunk: filters are read once for each chunk, and sums of a block stay in the second-level cache.
const ROWS: usize = 224;
/// Parts that are enough for a team.
const PARTS: usize = 8;

/// What is computed.
pub(in super::super) struct Job<'a, T: Real> {
    pub kernels: &'static Kernels<T>,
    pub sweep: Sweep,
    /// Global coordinates of the first output along H and W.
    pub first: [i64; 2],
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
    reduction: Reduction,
    /// Offsets of the planes of inputs that an output reads.
    planes: Vec<usize>,
    /// Job and chunk whose inputs they are.
    id: (usize, usize),
}

/// Computes a job; every output by the same sums, whoever computes it.
pub(in super::super) fn multiply<T: Real>(job: &Job<T>, y: &mut [T], team: &Team, scratch: &mut Scratch<T>) {
    let Job { sweep, first, x, packed, .. } = *job;
    if sweep.is_empty() {
        return;
    }
    let (blocks, inputs) = (packed.blocks, packed.inputs);
    let tiling = Tiling::new(sweep, first, inputs.rows / TAPS);
    let (last_x, last_y) = tiling.last();
    assert!(last_x + inputs.channels <= x.len() && last_y + blocks.channels <= y.len(), "a sweep stays inside its arrays");
    let row = Layout::new::<T>(1, inputs.channels.next_multiple_of(job.kernels.lanes)).row;
    let chunks = tiling.chunks::<T>(row, ROWS);
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
    let channels = packed.inputs.channels;
    let planes = chunk.depth.len() + tiling.taps - 1;
    let most = outputs_per_segment(1).max(outputs_per_segment(MAX_VECS));
    // The last tile may reach beyond the rows.
    let layout = Layout::new::<T>(planes * chunk.columns.len() + most, channels.next_multiple_of(lanes));
    if buffers.id != id {
        buffers.id = id;
        buffers.inputs.resize(layout.len());
        // SAFETY: by this function's contract; there is room for all points.
        unsafe {
            let points = buffers.inputs.as_mut_slice().as_mut_ptr();
            tiling.put_inputs(kernels, job.x, channels, chunk, layout, points);
        }
    }
    buffers.zeros.resize(MAX_VECS * lanes);
    buffers.zeros.as_mut_slice().fill(T::ZERO);
    for block in blocks {
        let width = block.vecs * lanes;
        let per = outputs_per_segment(block.vecs);
        let sums_layout = Layout::packed::<T>(chunk.rows().next_multiple_of(per), width);
        buffers.sums.resize(sums_layout.len());
        let weights = filter.block(block, lanes, tiling.taps * channels);
        // SAFETY: rows and sums have room for whole tiles; the table holds kernels of an available instruction set.
        unsafe { sum_points(job, tiling, chunk, block, weights, [layout, sums_layout], buffers) }
        let start = (packed.start(block).as_ptr(), slope);
        let sums = buffers.sums.as_mut_slice().as_mut_ptr();
        let own = [block.first, block.existing(lanes)];
        tiling.each_output(y.as_mut_ptr(), own, chunk, sums_layout, sums, start, |tiles| {
            // SAFETY: by this function's contract; there are sums for all tiles.
            unsafe { (kernels.winograd.outputs)(tiles) }
        });
    }
}

/// Sums over input channels and taps along D at every point.
///
/// # Safety
/// The buffers have room for the chunk's rows, rounded up to whole tiles.
unsafe fn sum_points<T: Real>(
    job: &Job<T>,
    tiling: &Tiling,
    chunk: &Chunk,
    block: ChannelBlock,
    weights: &[T],
    [layout, sums_layout]: [Layout; 2],
    buffers: &mut Buffers<T>,
) {
    let Job { kernels, packed, .. } = *job;
    let (width, per) = (block.vecs * kernels.lanes, outputs_per_segment(block.vecs));
    let Buffers { inputs, sums, zeros, reduction, planes, .. } = buffers;
    let taps = Inputs { rows: tiling.taps, taps: 1, channels: packed.inputs.channels, dense_w: false };
    planes.clear();
    planes.extend((0..tiling.taps).map(|tap| tap * chunk.columns.len() * layout.row));
    reduction.cut(&taps, planes, false, width * T::BYTES);
    let by_segments = kernels.gather[block.vecs - 1];
    let segments = chunk.rows().div_ceil(per);
    let tiles = segments.div_ceil(by_segments.len());
    let first_of = |tile: usize| tile * segments / tiles;
    let point_weights = weights.len() / POINTS;
    let mut tile = GatherTile {
        x: [inputs.as_slice().as_ptr(); MAX_SEGS],
        y: [std::ptr::null_mut(); MAX_SEGS],
        from: [0; MAX_SEGS],
        x_step: layout.row,
        y_step: 0,
        pieces: &[],
        weights: std::ptr::null(),
        start: std::ptr::null(),
        sums: std::ptr::null_mut(),
        last: false,
        ahead: std::ptr::null(),
        ahead_step: UNROLLED * width / tiles,
        tail: kernels.lanes,
        slope: T::ONE,
        plain: true,
    };
    for point in 0..POINTS {
        for slice in 0..reduction.slices.len() {
            let span = reduction.span(slice);
            let weights = &weights[point * point_weights + span.start * width..][..span.len() * width];
            tile.pieces = &reduction.pieces[reduction.slices[slice].0.clone()];
            tile.weights = weights.as_ptr();
            tile.start = if slice == 0 { zeros.as_slice().as_ptr() } else { std::ptr::null() };
            for t in 0..tiles {
                // The weights that follow arrive in the second-level cache.
                tile.ahead = weights.as_ptr().wrapping_add(weights.len() + t * weights.len() / tiles);
                let members = first_of(t)..first_of(t + 1);
                for (s, segment) in members.clone().enumerate() {
                    tile.x[s] = inputs.as_slice()[point * layout.point + segment * per * layout.row..].as_ptr();
                }
                let at = point * sums_layout.point + members.start * per * width;
                tile.sums = sums.as_mut_slice()[at..].as_mut_ptr();
                // SAFETY: by this function's contract.
                unsafe { by_segments[members.len() - 1](&tile) }
            }
        }
    }
}
