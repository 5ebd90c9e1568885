//! Drives the `gather` tiles over a box of outputs: cache blocking and the cut into tiles.
//!
//! Loop nest: chunk of tiles / block of output channels / slice of the reduction / tile. A slice's weights stay in the
//! first-level cache for all tiles of a chunk; the chunk's inputs and partial sums stay in the second-level cache. The two
//! outer loops are the parts that a team shares.
//!
//! Where neighbouring outputs share no inputs (1x1, dense, 2x2 at stride 2) and weights are many, a chunk's inputs are
//! copied to the order in which the tiles read them, a stretch of the reduction at a time. Others are read where they lie,
//! and a tile asks for those of the next.

use super::dispatch::{GatherFn, Kernels, MAX_VECS, outputs_per_segment};
use super::fill::Run;
use super::pack::{Aligned, ChannelBlock, Packed};
use super::reduction::Reduction;
use super::sweep::{Segment, Segments, Sweep};
use super::tile::{GatherTile, LONG, MAX_SEGS, TAPS, UNROLLED};
use crate::store::{STREAMED_BESIDE_SUMS as STREAMED, fence};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Inputs of neighbouring outputs at a multiple of this, bytes, fall into the same set of the first-level cache, ...
const SAME_SET: usize = 4096;
/// ... which then holds those of so many segments beside the weights.
const FEW_SEGMENTS: usize = 5;
/// Parts that are enough where inputs are not copied: the fewer, the more blocks find a chunk's inputs in the cache.
const PARTS_UNCOPIED: usize = 32;
/// Tiles of a chunk.
const CHUNK: usize = 16;

/// Blocks that are worth a copy of the inputs that they share, ...
const BLOCKS_COPIED: usize = 8;
/// ... if their weights, of so many bytes, come from beyond the second-level cache.
const WEIGHTS_COPIED: usize = 1 << 20;
/// Most elements of the reduction whose copies stay in the second-level cache, for a chunk.
const STRETCH: usize = 1024;
/// Most outputs of a tile whose inputs are copied.
const ROWS_COPIED: usize = MAX_SEGS * outputs_per_segment(MAX_VECS);
/// Inputs of an output that are copied at once where they do not adjoin.
const LINES_COPIED: usize = 64;

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    reduction: Reduction,
    threads: PerThread<Buffers<T>>,
    /// Sets of blocks computed so far.
    jobs: usize,
}

/// Those of a thread.
#[derive(Default)]
struct Buffers<T> {
    segments: Vec<Segment>,
    /// Weights of a slice of the reduction.
    weights: Aligned<T>,
    /// Sums over the slices so far, of the tiles of a chunk.
    sums: Aligned<T>,
    /// Copies of the inputs of a chunk, `[tile][stretch of the reduction][outputs]`.
    inputs: Aligned<T>,
    /// Job and chunk whose inputs they are, if the stretch is the whole reduction.
    copied: (usize, usize),
}

/// What is computed: the box of outputs, each of which reads a run of inputs (taps along W and channels) at each of the
/// offsets `rows` from its first input.
pub(super) struct Job<'a, T: 'static> {
    pub kernels: &'static Kernels<T>,
    pub sweep: Sweep,
    pub x: &'a [T],
    pub rows: &'a [usize],
    /// Elements of x from one input of an output to the next; 1 unless [`Packed::may_copy`].
    pub inner: usize,
    /// Prepared for these outputs with `weight`.
    pub packed: &'a Packed<T>,
    pub weight: &'a [T],
    /// Outputs below zero are multiplied by it, at last; at most 1, which is the identity.
    pub slope: T,
}

/// Computes a job. Each output is summed in one order, whoever computes it.
pub(super) fn gather<T: Real>(job: &Job<T>, y: &mut [T], team: &Team, scratch: &mut Scratch<T>) {
    let Job { sweep, x, rows, packed, inner, .. } = *job;
    if sweep.is_empty() {
        return;
    }
    let inputs = packed.inputs;
    let (last_x, last_y) = sweep.last();
    let run = inputs.taps * inputs.channels;
    let reach = rows.iter().max().map_or(0, |r| r + run.saturating_sub(1) * inner + run.min(1));
    assert!(last_x + reach <= x.len() && last_y + packed.blocks.channels <= y.len(), "a sweep stays inside its arrays");
    assert_eq!(inputs.rows, rows.len(), "weights are packed for this reduction");
    let y = SharedMut::new(y);
    if let Some(dot) = packed.dot() {
        // SAFETY: inputs and outputs were checked against the arrays above; the whole box is this call's.
        return unsafe { dot.gather(job, &y, team) };
    }
    scratch.threads.fit(team);
    for vecs in (1..=MAX_VECS).rev() {
        let blocks = packed.blocks.of(vecs).len();
        if blocks == 0 {
            continue;
        }
        let plan = Plan::new(job, vecs);
        let by_taps = inputs.by_taps(vecs);
        scratch.reduction.cut(&inputs, rows, by_taps, plan.width * T::BYTES);
        scratch.jobs += 1;
        let tiles = plan.segments.count.div_ceil(plan.by_segments.len());
        let chunks = match tiles.div_ceil(CHUNK) {
            // Parts are few and large: an even number suits most teams.
            chunks if plan.copied && chunks > 1 => chunks.next_multiple_of(2).min(tiles),
            chunks => chunks,
        };
        let runs = if plan.copied {
            // Every run copies the inputs once more: no more of them than there are threads to feed.
            team.threads().div_ceil(chunks).min(blocks / BLOCKS_COPIED).max(1)
        } else {
            PARTS_UNCOPIED.div_ceil(chunks).min(blocks)
        };
        let Scratch { reduction, threads, jobs } = &*scratch;
        team.run(chunks * runs, |thread, part| {
            let (chunk, run) = (part / runs, part % runs);
            let id = (*jobs, chunk);
            let tiles_of = |chunk: usize| chunk * tiles / chunks;
            let first_of = |tile: usize| tile * plan.segments.count / tiles;
            let chunk = tiles_of(chunk)..tiles_of(chunk + 1);
            let buffers = &mut *threads.of(thread);
            plan.segments.list(first_of(chunk.start)..first_of(chunk.end), &mut buffers.segments);
            let blocks = || packed.blocks.of(vecs).take((run + 1) * blocks / runs).skip(run * blocks / runs);
            // SAFETY: every segment lies inside the box, whose inputs and outputs were checked against the arrays above;
            // no two parts share an output.
            unsafe { run_part(job, &plan, &y, blocks, buffers, chunk.len(), reduction, id) }
            fence();
        });
    }
}

/// How the blocks of one width are computed.
struct Plan<T: 'static> {
    by_segments: &'static [GatherFn<T>],
    /// Weights of an element of the reduction.
    width: usize,
    segments: Segments,
    /// Whether inputs are copied first.
    copied: bool,
}

impl<T: Real> Plan<T> {
    fn new(job: &Job<T>, vecs: usize) -> Self {
        let Job { kernels, sweep, packed, inner, .. } = *job;
        let (inputs, lanes) = (packed.inputs, kernels.lanes);
        if inputs.by_taps(vecs) {
            let long = sweep.extent[3] >= LONG;
            let by_segments = if long { kernels.taps_long } else { kernels.taps_single };
            let segments = Segments::new(sweep, if long { LONG } else { 1 });
            return Plan { by_segments, width: TAPS * lanes, segments, copied: false };
        }
        let per = outputs_per_segment(vecs);
        let segments = Segments::new(sweep.with_last(sweep.inner(per)), per);
        let blocks = packed.blocks;
        let bytes = blocks.padded() * inputs.len() * T::BYTES;
        let many = blocks.count() >= BLOCKS_COPIED && bytes >= WEIGHTS_COPIED;
        let copied = inputs.are_apart(&sweep) && many && vecs == MAX_VECS || inner > 1;
        let mut by_segments = if copied { kernels.copied[vecs - 1] } else { kernels.gather[vecs - 1] };
        if !copied && (segments.x_step * T::BYTES).is_multiple_of(SAME_SET) {
            by_segments = &by_segments[..by_segments.len().min(FEW_SEGMENTS)];
        }
        Plan { by_segments, width: vecs * lanes, segments, copied }
    }
}

/// Runs the tiles that the segments of a chunk are cut into, for some blocks of output channels.
///
/// # Safety
/// All positions of the segments lie inside `x` and `y`, and nobody else touches those in `y`.
unsafe fn run_part<T: Real, I: Iterator<Item = ChannelBlock>>(
    job: &Job<T>,
    plan: &Plan<T>,
    y: &SharedMut<T>,
    blocks: impl Fn() -> I,
    buffers: &mut Buffers<T>,
    tiles: usize,
    reduction: &Reduction,
    id: (usize, usize),
) {
    let all = reduction.slices.len();
    let total = job.packed.inputs.len();
    let stretches = if plan.copied { total.div_ceil(STRETCH).clamp(1, all) } else { 1 };
    let sums_of_block = buffers.segments.len() * plan.segments.per * plan.width;
    buffers.sums.resize(sums_of_block * if stretches > 1 { blocks().count() } else { 1 });
    for stretch in 0..stretches {
        let slices = stretch * all / stretches..(stretch + 1) * all / stretches;
        if plan.copied && (stretches > 1 || buffers.copied != id) {
            buffers.copied = id;
            // SAFETY: by this function's contract.
            unsafe { copy_inputs(job, plan, buffers, tiles, reduction, slices.clone()) }
        }
        let mut rest = blocks().enumerate().peekable();
        while let Some((i, block)) = rest.next() {
            let first_sum = if stretches > 1 { i * sums_of_block } else { 0 };
            let next = match rest.peek() {
                Some(&(_, block)) => Some((block, slices.start)),
                None if slices.end < all => blocks().next().map(|block| (block, slices.end)),
                None => None,
            };
            let stretch = Stretch { slices: slices.clone(), block, first_sum, next };
            // SAFETY: by this function's contract.
            unsafe { run_tiles(job, plan, y, &stretch, buffers, tiles, reduction) }
        }
    }
}

/// Some slices of the reduction for a block of output channels.
struct Stretch {
    slices: Range<usize>,
    block: ChannelBlock,
    /// Where its sums start.
    first_sum: usize,
    /// Block and slice that are next.
    next: Option<(ChannelBlock, usize)>,
}

/// Copies a stretch of the inputs of every tile.
///
/// # Safety
/// As for [`run_part`].
unsafe fn copy_inputs<T: Real>(
    job: &Job<T>,
    plan: &Plan<T>,
    buffers: &mut Buffers<T>,
    tiles: usize,
    reduction: &Reduction,
    slices: Range<usize>,
) {
    let stretch = reduction.span(slices.start).start..reduction.span(slices.end - 1).end;
    let Buffers { segments, inputs, .. } = buffers;
    let Segments { per, x_step, .. } = plan.segments;
    let first_of = |tile: usize| tile * segments.len() / tiles;
    inputs.resize(segments.len() * per * stretch.len() + job.kernels.lanes);
    let inputs = inputs.as_mut_slice().as_mut_ptr();
    if job.inner == 1 {
        for t in 0..tiles {
            let members = &segments[first_of(t)..first_of(t + 1)];
            let count = members.len() * per;
            let mut to = first_of(t) * per * stretch.len();
            for run in reduction.runs(slices.clone()) {
                let mut rows = [job.x[run.offset..].as_ptr(); ROWS_COPIED];
                for (o, row) in rows[..count].iter_mut().enumerate() {
                    *row = row.wrapping_add(members[o / per].x + o % per * x_step);
                }
                // SAFETY: the rows are the inputs of outputs; the buffer has room for all tiles and a vector.
                unsafe { (job.kernels.transpose)(&rows[..count], run.len, inputs.add(to)) }
                to += run.len * count;
            }
        }
        return;
    }
    let x = job.x[job.rows[0] + stretch.start * job.inner..].as_ptr();
    // A line of x has inputs of several tiles: it is still in a cache when the second needs it.
    for first in (0..stretch.len()).step_by(LINES_COPIED) {
        let len = LINES_COPIED.min(stretch.len() - first);
        for t in 0..tiles {
            let members = &segments[first_of(t)..first_of(t + 1)];
            let (count, from) = (members.len() * per, x.wrapping_add(first * job.inner));
            let apart = members.windows(2).any(|pair| pair[1].x - pair[0].x != per * x_step);
            // SAFETY: as above.
            unsafe {
                let to = inputs.add(first_of(t) * per * stretch.len() + first * count);
                let run = Run { from, from_step: job.inner, to, to_step: count, len, channels: count };
                if x_step == 1 && !apart {
                    (job.kernels.rows)(&Run { from: from.add(members[0].x), ..run });
                    continue;
                }
                for (o, segment) in (0..count).map(|o| (o, &members[o / per])) {
                    for i in 0..len {
                        *to.add(i * count + o) = *from.add(segment.x + o % per * x_step + i * job.inner);
                    }
                }
            }
        }
    }
}

/// Runs the tiles for one block of output channels over some slices of the reduction.
///
/// # Safety
/// As for [`run_part`].
unsafe fn run_tiles<T: Real>(
    job: &Job<T>,
    plan: &Plan<T>,
    y: &SharedMut<T>,
    stretch: &Stretch,
    buffers: &mut Buffers<T>,
    tiles: usize,
    reduction: &Reduction,
) {
    let Job { x, packed, .. } = *job;
    let Stretch { slices, block, first_sum, next } = stretch;
    let Buffers { segments, weights, sums, inputs, .. } = buffers;
    let first_of = |tile: usize| tile * segments.len() / tiles;
    let per = plan.segments.per;
    let sums = &mut sums.as_mut_slice()[*first_sum..];
    let stretch = reduction.span(slices.start).start..reduction.span(slices.end - 1).end;
    let mut tile = GatherTile {
        y: [y.as_mut_ptr(); MAX_SEGS],
        y_step: plan.segments.y_step,
        slope: job.slope,
        stream: y.len() * T::BYTES >= STREAMED,
        ..GatherTile::blank(x.as_ptr(), plan.segments.x_step, 0, block.tail)
    };
    for i in slices.clone() {
        let span = reduction.span(i);
        // The next slice's weights arrive in the second-level cache.
        let next = if i + 1 < slices.end { Some((*block, i + 1)) } else { *next };
        let ahead = next.and_then(|(block, slice)| packed.ahead(block, reduction, slice, job.weight));
        let weights = packed.slice(*block, reduction, i, job.weight, weights);
        tile.pieces = &reduction.pieces[reduction.slices[i].0.clone()];
        tile.weights = weights.as_ptr();
        tile.start = if i == 0 { packed.start(*block).as_ptr() } else { std::ptr::null() };
        tile.last = i + 1 == reduction.slices.len();
        for t in 0..tiles {
            (tile.ahead, tile.ahead_step) =
                ahead.map_or((weights.as_ptr(), 0), |ahead| ahead.share(t, tiles, span.len() / UNROLLED));
            let members = &segments[first_of(t)..first_of(t + 1)];
            // The last tile's step is that of the one before: chunks often adjoin.
            if t + 1 < tiles {
                tile.next = segments[first_of(t + 1)].x.wrapping_sub(members[0].x).cast_signed();
            }
            tile.sums = sums[first_of(t) * per * plan.width..].as_mut_ptr();
            for (s, segment) in members.iter().enumerate() {
                // SAFETY: by this function's contract.
                unsafe {
                    tile.x[s] = x.as_ptr().add(segment.x);
                    tile.y[s] = y.as_mut_ptr().add(segment.y + block.first);
                }
                tile.from[s] = segment.from;
            }
            if plan.copied {
                let at = first_of(t) * per * stretch.len() + (span.start - stretch.start) * members.len() * per;
                tile.x[0] = inputs.as_slice()[at..].as_ptr();
            }
            let whole = members.iter().all(|segment| segment.from == 0);
            tile.plain = whole && block.tail == job.kernels.lanes && job.slope == T::ONE;
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe { plan.by_segments[members.len() - 1](&tile) }
        }
    }
}
