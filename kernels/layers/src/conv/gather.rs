//! Drives the `gather` tiles over a box of outputs: cache blocking and the cut into tiles.
//!
//! Loop nest: chunk of tiles / block of output channels / slice of the reduction / tile. A slice's weights stay in the
//! first-level cache for all tiles of a chunk; the chunk's inputs and partial sums stay in the second-level cache. The two
//! outer loops are the parts that a team shares.

use super::dispatch::{GatherFn, Kernels, MAX_VECS, outputs_per_segment};
use super::dot::DotJob;
use super::pack::{Aligned, ChannelBlock, Packed, Reduction};
use super::tile::{GatherTile, LONG, MAX_SEGS, TAPS};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Inputs of neighbouring outputs at a multiple of this, bytes, fall into the same set of the first-level cache, ...
const SAME_SET: usize = 4096;
/// ... which then holds those of so many segments beside the weights.
const FEW_SEGMENTS: usize = 5;
/// Tiles of a chunk.
const CHUNK: usize = 16;

/// A box of outputs over N, D, H, W by steps in the arrays that are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    /// Offset of the first output's first input.
    pub x0: usize,
    /// Offset of the first output.
    pub y0: usize,
    /// Outputs.
    pub extent: [usize; 4],
    /// Elements of x from one output to the next.
    pub x_step: [usize; 4],
    /// Elements of y from one output to the next.
    pub y_step: [usize; 4],
}

impl Sweep {
    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.extent.iter().product()
    }

    /// Offsets of the last output in x and y.
    pub fn last(&self) -> (usize, usize) {
        let last =
            |base: usize, step: &[usize; 4]| base + (0..4).map(|i| (self.extent[i] - 1) * step[i]).sum::<usize>();
        (last(self.x0, &self.x_step), last(self.y0, &self.y_step))
    }

    /// The dimension along which segments of `per` outputs waste least; W if there is a choice.
    fn inner(&self, per: usize) -> usize {
        // Compares used / computed outputs of two dimensions as fractions.
        let computed = |e: usize| e.next_multiple_of(per);
        let mut best = 3;
        for i in [2, 1, 0] {
            let (e, b) = (self.extent[i], self.extent[best]);
            if e * computed(b) > b * computed(e) {
                best = i;
            }
        }
        best
    }

    /// The same box with dimension `inner` last.
    pub fn with_last(mut self, inner: usize) -> Self {
        for list in [&mut self.extent, &mut self.x_step, &mut self.y_step] {
            list[inner..].rotate_left(1);
        }
        self
    }
}

/// A few outputs a constant step apart.
#[derive(Clone, Copy)]
struct Segment {
    x: usize,
    y: usize,
    from: usize,
}

/// Buffers that are kept from call to call.
#[derive(Default)]
pub(super) struct Scratch<T> {
    reduction: Reduction,
    own: PerThread<Own<T>>,
}

/// Buffers of a thread.
#[derive(Default)]
struct Own<T> {
    segments: Vec<Segment>,
    /// Weights of a slice of the reduction.
    weights: Aligned<T>,
}

/// What is computed: the box of outputs, each of which reads a run of inputs (taps along W and channels) at each of the
/// offsets `rows` from its first input.
pub(super) struct Job<'a, T: 'static> {
    pub kernels: &'static Kernels<T>,
    pub sweep: Sweep,
    pub x: &'a [T],
    pub rows: &'a [usize],
    /// Prepared for these outputs with `weight`.
    pub packed: &'a Packed<T>,
    pub weight: &'a [T],
    /// Outputs below zero are multiplied by it, at last; at most 1, which is the identity.
    pub slope: T,
}

/// Computes a job. Each output is summed in one order, whoever computes it.
pub(super) fn gather<T: Real>(job: &Job<T>, y: &mut [T], team: &Team, scratch: &mut Scratch<T>) {
    let Job { kernels, sweep, x, rows, packed, .. } = *job;
    if sweep.is_empty() {
        return;
    }
    let (inputs, lanes) = (packed.inputs, kernels.lanes);
    let (last_x, last_y) = sweep.last();
    let run = inputs.taps * inputs.channels;
    let reach = rows.iter().max().map_or(0, |r| r + run);
    assert!(last_x + reach <= x.len() && last_y + packed.blocks.channels <= y.len(), "a sweep stays inside its arrays");
    assert_eq!(inputs.rows, rows.len(), "weights are packed for this reduction");
    let y = SharedMut::new(y);
    if let Some(dot) = packed.dot() {
        let job = DotJob { kernels, sweep, x, rows, inputs, start: packed.starts(), slope: job.slope };
        // SAFETY: inputs and outputs were checked against the arrays above; the whole box is this call's.
        return unsafe { dot.gather(&job, &y, team) };
    }
    scratch.own.fit(team);
    for vecs in (1..=MAX_VECS).rev() {
        let blocks = packed.blocks.of(vecs).len();
        if blocks == 0 {
            continue;
        }
        let by_taps = inputs.by_taps(vecs);
        let (mut by_segments, width, segments) = if by_taps {
            let long = sweep.extent[3] >= LONG;
            let by_segments = if long { kernels.taps_long } else { kernels.taps_single };
            (by_segments, TAPS * lanes, Segments::new(sweep, if long { LONG } else { 1 }))
        } else {
            let per = outputs_per_segment(vecs);
            (kernels.gather[vecs - 1], vecs * lanes, Segments::new(sweep.with_last(sweep.inner(per)), per))
        };
        if !by_taps && segments.x_step * T::BYTES % SAME_SET == 0 {
            by_segments = &by_segments[..by_segments.len().min(FEW_SEGMENTS)];
        }
        scratch.reduction.cut(&inputs, rows, by_taps, width * T::BYTES);
        let plan = Plan { by_segments, segments };
        let tiles = plan.segments.count.div_ceil(plan.by_segments.len());
        let chunks = tiles.div_ceil(CHUNK);
        let Scratch { reduction, own } = &*scratch;
        team.run(chunks * blocks, |thread, part| {
            let (chunk, block) = (part / blocks, part % blocks);
            let tiles_of = |chunk: usize| chunk * tiles / chunks;
            let first_of = |tile: usize| tile * plan.segments.count / tiles;
            let chunk = tiles_of(chunk)..tiles_of(chunk + 1);
            let own = &mut *own.of(thread);
            plan.segments.list(first_of(chunk.start)..first_of(chunk.end), &mut own.segments);
            let block = packed.blocks.of(vecs).nth(block).expect("a part is one of the blocks");
            // SAFETY: every segment lies inside the box, whose inputs and outputs were checked against the arrays above;
            // no two parts share an output.
            unsafe { run_tiles(job, &plan, &y, block, own, chunk.len(), reduction) }
        });
    }
}

/// How the blocks of one width are computed.
struct Plan<T: 'static> {
    by_segments: &'static [GatherFn<T>],
    segments: Segments,
}

/// A box as segments of `per` outputs along its last dimension. A last segment that would reach beyond the box starts
/// earlier and leaves the outputs of its predecessor alone; in a box of fewer than `per` outputs a segment is one
/// output, repeated.
struct Segments {
    sweep: Sweep,
    per: usize,
    /// Segments of a line.
    per_line: usize,
    count: usize,
    /// Elements from one output of a segment to the next.
    x_step: usize,
    y_step: usize,
}

impl Segments {
    fn new(sweep: Sweep, per: usize) -> Self {
        let [n, d, h, w] = sweep.extent;
        let short = w < per;
        let per_line = if short { w } else { w.div_ceil(per) };
        let [x_step, y_step] = [sweep.x_step[3], sweep.y_step[3]].map(|step| if short { 0 } else { step });
        Segments { sweep, per, per_line, count: n * d * h * per_line, x_step, y_step }
    }

    /// Lists some of the segments.
    fn list(&self, range: Range<usize>, list: &mut Vec<Segment>) {
        let Segments { sweep, per, per_line, .. } = self;
        let [_, d, h, w] = sweep.extent;
        list.clear();
        let mut next = range.start;
        while next < range.end {
            let line = next / per_line;
            let at = [line / (d * h), line / h % d, line % h];
            let x = sweep.x0 + (0..3).map(|i| at[i] * sweep.x_step[i]).sum::<usize>();
            let y = sweep.y0 + (0..3).map(|i| at[i] * sweep.y_step[i]).sum::<usize>();
            let end = range.end.min((line + 1) * per_line);
            list.extend((next..end).map(|segment| {
                let i = segment - line * per_line;
                let (first, from) =
                    if w < *per { (i, per - 1) } else { ((i * per).min(w - per), i * per - (i * per).min(w - per)) };
                Segment { x: x + first * sweep.x_step[3], y: y + first * sweep.y_step[3], from }
            }));
            next = end;
        }
    }
}

/// Runs the tiles that the thread's segments are cut into, for one block of output channels.
///
/// # Safety
/// All positions of the segments lie inside `x` and `y`, and nobody else touches those in `y`.
unsafe fn run_tiles<T: Real>(
    job: &Job<T>,
    plan: &Plan<T>,
    y: &SharedMut<T>,
    block: ChannelBlock,
    own: &mut Own<T>,
    tiles: usize,
    reduction: &Reduction,
) {
    let Job { x, packed, .. } = *job;
    let Own { segments, weights } = own;
    let first_of = |tile: usize| tile * segments.len() / tiles;
    let mut tile = GatherTile {
        x: [x.as_ptr(); MAX_SEGS],
        y: [y.as_mut_ptr(); MAX_SEGS],
        from: [0; MAX_SEGS],
        x_step: plan.segments.x_step,
        y_step: plan.segments.y_step,
        pieces: &[],
        weights: std::ptr::null(),
        start: std::ptr::null(),
        tail: block.tail,
        slope: T::ONE,
        plain: false,
    };
    for (i, (pieces, _)) in reduction.slices.iter().enumerate() {
        tile.pieces = &reduction.pieces[pieces.clone()];
        tile.weights = packed.slice(block, reduction, i, job.weight, weights).as_ptr();
        tile.start = if i == 0 { packed.start(block).as_ptr() } else { std::ptr::null() };
        tile.slope = if i + 1 == reduction.slices.len() { job.slope } else { T::ONE };
        for t in 0..tiles {
            let members = &segments[first_of(t)..first_of(t + 1)];
            for (s, segment) in members.iter().enumerate() {
                // SAFETY: by this function's contract.
                unsafe {
                    tile.x[s] = x.as_ptr().add(segment.x);
                    tile.y[s] = y.as_mut_ptr().add(segment.y + block.first);
                }
                tile.from[s] = segment.from;
            }
            let whole = members.iter().all(|segment| segment.from == 0);
            tile.plain = whole && block.tail == job.kernels.lanes && tile.slope == T::ONE;
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe { plan.by_segments[members.len() - 1](&tile) }
        }
    }
}
