//! Filters as points, in the order in which the products read them.

use super::super::dispatch::Kernels;
use super::super::pack::{Aligned, ChannelBlock, Packed};
use super::super::tile::by_taps;
use super::{Filters, POINTS, TAPS, line_taps};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_tensor::Real;

/// Input channels that are transformed at once.
const CHANNELS: usize = 32;

/// The points of all filters, `[block of output channels][POINTS][tap along the line][input channel][channel of the block]`;
/// by taps, `[input channel][tap along the line]`.
#[derive(Default)]
pub(in super::super) struct Filter<T> {
    data: Aligned<T>,
    is_filled: bool,
    taps: PerThread<Aligned<T>>,
}

impl<T: Real> Filter<T> {
    /// The weights have changed.
    pub fn forget(&mut self) {
        self.is_filled = false;
    }

    /// Transforms the weights that `packed` knows how to read, unless they are the same as before.
    pub fn prepare(&mut self, kernels: &Kernels<T>, packed: &Packed<T>, weight: &[T], team: &Team) {
        if self.is_filled {
            return;
        }
        let (blocks, inputs) = (packed.blocks, packed.inputs);
        let line = line_taps(&inputs);
        let sum = line * inputs.channels;
        self.data.resize(blocks.padded() * POINTS * sum);
        self.taps.fit(team);
        let pieces = inputs.channels.div_ceil(CHANNELS);
        let shared = SharedMut::new(self.data.as_mut_slice());
        let taps = &self.taps;
        team.run(blocks.count() * line * pieces, |thread, part| {
            let (block, tap, piece) = (part / pieces / line, part / pieces % line, part % pieces);
            let block = blocks.all().nth(block).expect("a part is one of the blocks");
            let width = block.vecs * blocks.lanes;
            let cut = |piece: usize| piece * inputs.channels / pieces;
            let (first, rows) = (cut(piece), cut(piece + 1) - cut(piece));
            let mut taps = taps.of(thread);
            taps.resize(TAPS * TAPS * rows * width);
            let runs = (0..TAPS * TAPS).map(|tile| ((tile * line + tap) * inputs.channels + first, rows));
            packed.copy(block, runs, weight, taps.as_mut_slice());
            let (to, step) = if by_taps(block.vecs, line) {
                (first * line + tap, line * width)
            } else {
                (tap * inputs.channels + first, width)
            };
            let filters = Filters {
                taps: taps.as_mut_slice().as_mut_ptr(),
                tap_steps: [rows * width, width],
                points: shared.as_mut_ptr().wrapping_add(block.first * POINTS * sum + to * width),
                point_steps: [sum * width, step],
                sets: [0, 1],
                len: width,
                rows,
            };
            // SAFETY: parts write different filters, all of them inside the array; the table holds kernels of an available
            // instruction set.
            unsafe { (kernels.winograd.filters)(&filters) }
        });
        self.is_filled = true;
    }

    /// The filters of a block at all points.
    pub fn block(&self, block: ChannelBlock, lanes: usize, sum: usize) -> &[T] {
        &self.data.as_slice()[block.first * POINTS * sum..][..block.vecs * lanes * POINTS * sum]
    }
}
