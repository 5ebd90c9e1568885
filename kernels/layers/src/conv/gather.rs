//! Drives the `gather` tiles over a box of outputs: cache blocking and the cut into tiles.
//!
//! Loop nest: chunk of tiles / block of output channels / slice of the reduction / tile. A slice's weights stay in the
//! first-level cache for all tiles of a chunk; the chunk's inputs and partial sums stay in the second-level cache.

use super::dispatch::{GatherFn, Kernels, MAX_VECS, outputs_per_segment};
use super::pack::{Packed, Reduction};
use super::tile::{GatherTile, LONG, MAX_SEGS, TAPS};
use shardmark_tensor::Real;

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
pub(super) struct Scratch {
    segments: Vec<Segment>,
    reduction: Reduction,
}

/// Computes the box of outputs; an output reads a run of inputs (taps along W and channels) at each of the offsets
/// `rows` from its first input.
pub(super) fn gather<T: Real>(
    kernels: &Kernels<T>,
    sweep: &Sweep,
    x: &[T],
    y: &mut [T],
    rows: &[usize],
    packed: &Packed<T>,
    scratch: &mut Scratch,
) {
    if sweep.is_empty() {
        return;
    }
    let (inputs, lanes) = (packed.inputs, kernels.lanes);
    let (last_x, last_y) = sweep.last();
    let run = inputs.taps * inputs.channels;
    let reach = rows.iter().max().map_or(0, |r| r + run);
    assert!(last_x + reach <= x.len() && last_y + packed.blocks.channels <= y.len(), "a sweep stays inside its arrays");
    assert_eq!(inputs.rows, rows.len(), "weights are packed for this reduction");
    for vecs in (1..=MAX_VECS).rev() {
        if packed.blocks.of(vecs).next().is_none() {
            continue;
        }
        let Scratch { segments, reduction } = scratch;
        let mut plan = Plan { by_segments: kernels.gather[vecs - 1], vecs, width: vecs * lanes, sweep: *sweep };
        if inputs.by_taps(vecs) {
            let long = sweep.extent[3] >= LONG;
            plan.by_segments = if long { kernels.taps_long } else { kernels.taps_single };
            plan.width = TAPS * lanes;
            list_segments(sweep, if long { LONG } else { 1 }, segments);
            reduction.cut(rows, inputs.channels, plan.width * T::BYTES);
        } else {
            let per = outputs_per_segment(vecs);
            plan.sweep = list_segments(&sweep.with_last(sweep.inner(per)), per, segments);
            reduction.cut(rows, run, plan.width * T::BYTES);
        }
        // SAFETY: every segment lies inside the box, whose inputs and outputs were checked against the arrays above.
        unsafe { run_tiles(&plan, x, y, packed, scratch) }
    }
}

/// How the blocks of one width are computed.
struct Plan<T: 'static> {
    by_segments: &'static [GatherFn<T>],
    vecs: usize,
    /// Weights of an element of the reduction.
    width: usize,
    sweep: Sweep,
}

/// Lists the box as segments of `per` outputs along its last dimension, and returns it with the steps of a segment's
/// outputs there. A last segment that would reach beyond the box starts earlier and leaves the outputs of its
/// predecessor alone; in a box of fewer than `per` outputs a segment is one output, repeated.
fn list_segments(sweep: &Sweep, per: usize, segments: &mut Vec<Segment>) -> Sweep {
    segments.clear();
    let [n, d, h, w] = sweep.extent;
    let short = w < per;
    for outer in 0..n * d * h {
        let at = [outer / (d * h), outer / h % d, outer % h];
        let x = sweep.x0 + (0..3).map(|i| at[i] * sweep.x_step[i]).sum::<usize>();
        let y = sweep.y0 + (0..3).map(|i| at[i] * sweep.y_step[i]).sum::<usize>();
        for i in (0..w).step_by(if short { 1 } else { per }) {
            let first = if short { i } else { i.min(w - per) };
            let from = if short { per - 1 } else { i - first };
            segments.push(Segment { x: x + first * sweep.x_step[3], y: y + first * sweep.y_step[3], from });
        }
    }
    let mut segmented = *sweep;
    if short {
        (segmented.x_step[3], segmented.y_step[3]) = (0, 0);
    }
    segmented
}

/// Runs all tiles of the blocks with `vecs` vectors.
///
/// # Safety
/// All positions of the segments lie inside `x` and `y`.
unsafe fn run_tiles<T: Real>(plan: &Plan<T>, x: &[T], y: &mut [T], packed: &Packed<T>, scratch: &Scratch) {
    let Scratch { segments, reduction } = scratch;
    let Plan { by_segments, sweep, .. } = plan;
    let tiles = segments.len().div_ceil(by_segments.len());
    let first_of = |tile: usize| tile * segments.len() / tiles;
    let mut tile = GatherTile {
        x: [x.as_ptr(); MAX_SEGS],
        y: [y.as_mut_ptr(); MAX_SEGS],
        from: [0; MAX_SEGS],
        x_step: sweep.x_step[3],
        y_step: sweep.y_step[3],
        pieces: &[],
        weights: std::ptr::null(),
        start: std::ptr::null(),
        tail: 0,
    };
    for chunk in (0..tiles).step_by(CHUNK) {
        let chunk = chunk..(chunk + CHUNK).min(tiles);
        for block in packed.blocks.of(plan.vecs) {
            let weights = packed.weights(block);
            tile.tail = block.tail;
            for (i, (pieces, first)) in reduction.slices.iter().enumerate() {
                tile.pieces = &reduction.pieces[pieces.clone()];
                tile.weights = weights[first * plan.width..].as_ptr();
                tile.start = if i == 0 { packed.start(block).as_ptr() } else { std::ptr::null() };
                for t in chunk.clone() {
                    let members = &segments[first_of(t)..first_of(t + 1)];
                    for (s, segment) in members.iter().enumerate() {
                        // SAFETY: by this function's contract.
                        unsafe {
                            tile.x[s] = x.as_ptr().add(segment.x);
                            tile.y[s] = y.as_mut_ptr().add(segment.y + block.first);
                        }
                        tile.from[s] = segment.from;
                    }
                    // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                    unsafe { by_segments[members.len() - 1](&tile) }
                }
            }
        }
    }
}
