//! Weights in the order in which the kernels read them: `[block of output channels][reduction][vectors of the block]`.

use super::dispatch::MAX_VECS;
use super::tile::{Piece, TAPS};
use shardmark_host::{SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Bytes of weights that stay in the first-level cache while a kernel goes over many outputs.
const SLICE_BYTES: usize = 24 << 10;
/// Bytes of the weights of one input in a wide block, with the widest vectors.
const WIDTH_BYTES: usize = 128;

/// A vector that starts at a cache line.
#[derive(Clone, Debug, Default)]
pub(super) struct Aligned<T> {
    data: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Real> Aligned<T> {
    const LINE: usize = 64;

    /// Makes it `len` long; what it holds is then unspecified but initialised.
    pub fn resize(&mut self, len: usize) {
        let spare = Self::LINE / T::BYTES;
        if self.data.len() < len + spare {
            self.data.resize(len + spare, T::ZERO);
            self.first = self.data.as_ptr().align_offset(Self::LINE).min(spare);
        }
        self.len = len;
    }

    pub fn as_slice(&self) -> &[T] {
        &self.data[self.first..self.first + self.len]
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data[self.first..self.first + self.len]
    }
}

/// Output channels in vectors, and those in blocks of one tile's width: wide blocks, then one narrow if odd.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    /// Output channels.
    pub channels: usize,
    /// Elements of a vector.
    pub lanes: usize,
}

/// A block of output channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelBlock {
    /// First channel.
    pub first: usize,
    /// Vectors.
    pub vecs: usize,
    /// Channels of the last vector that exist.
    pub tail: usize,
}

impl ChannelBlock {
    /// Channels that exist.
    pub fn existing(&self, lanes: usize) -> usize {
        (self.vecs - 1) * lanes + self.tail
    }
}

/// Copies the first `to.len()` elements, a few at most, without a call.
#[inline(always)]
pub(super) fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    let from = &from[..to.len()];
    let ((to, to_rest), (from, from_rest)) = (to.as_chunks_mut::<16>(), from.as_chunks::<16>());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    to_rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = *from);
}

impl Blocks {
    /// Channels rounded up to vectors.
    pub fn padded(&self) -> usize {
        self.channels.next_multiple_of(self.lanes)
    }

    /// The blocks of `vecs` vectors.
    pub fn of(self, vecs: usize) -> impl ExactSizeIterator<Item = ChannelBlock> {
        let all = self.channels.div_ceil(self.lanes);
        let wide = all / MAX_VECS;
        let (first, count) = if vecs == MAX_VECS { (0, wide) } else { (wide * MAX_VECS, all - wide * MAX_VECS) };
        (0..count).map(move |i| {
            let v = first + i * vecs;
            let before_tail = (v + vecs - 1) * self.lanes;
            let tail = (self.channels - before_tail).min(self.lanes);
            ChannelBlock { first: v * self.lanes, vecs, tail }
        })
    }

    /// Number of blocks.
    pub fn count(self) -> usize {
        self.channels.div_ceil(self.lanes).div_ceil(MAX_VECS)
    }

    /// All blocks.
    pub fn all(self) -> impl Iterator<Item = ChannelBlock> {
        (1..=MAX_VECS).rev().flat_map(move |vecs| self.of(vecs))
    }
}

/// The inputs of an output of a dense convolution: `[row][tap along W][channel]`. They are summed in the order
/// `[row][block of channels][tap][channel of the block]`, with the weights of a row's block in the first-level cache: an
/// input that is loaded for one tap is there for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Inputs {
    /// Taps along D times taps along H.
    pub rows: usize,
    /// Taps along W.
    pub taps: usize,
    /// Input channels.
    pub channels: usize,
    /// Whether neighbouring outputs along W read neighbouring inputs.
    pub dense_w: bool,
}

/// Channels of a block of the reduction, as a multiple of a cache line of inputs.
const LINE: usize = 16;

impl Inputs {
    /// Their number.
    pub fn len(&self) -> usize {
        self.rows * self.taps * self.channels
    }

    /// Whether a block of `vecs` vectors is computed by `gather_taps`, with weights `[row][channel][tap]`. It depends
    /// on the layer only, so that every output is summed in the same order whatever sub-box it is computed in.
    pub fn by_taps(&self, vecs: usize) -> bool {
        vecs == 1 && self.taps == TAPS && self.dense_w
    }

    /// Blocks of channels.
    pub fn channel_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Inputs { taps, channels, .. } = *self;
        let most = (SLICE_BYTES / WIDTH_BYTES / taps.max(1) / LINE * LINE).max(LINE);
        let count = if taps > 1 { channels.div_ceil(most) } else { 1 };
        (0..count).map(move |i| i * channels / count..(i + 1) * channels / count)
    }

    /// Where the inputs of a tap in a block of channels start in the order of a block's weights.
    fn position(&self, vecs: usize, row: usize, tap: usize, block: &Range<usize>) -> usize {
        let first = row * self.taps * self.channels + block.start * self.taps;
        first + if self.by_taps(vecs) { tap } else { tap * block.len() }
    }

    /// From one channel to the next in the order of a block's weights.
    fn step(&self, vecs: usize) -> usize {
        if self.by_taps(vecs) { self.taps } else { 1 }
    }

    /// All rows, taps and blocks of channels.
    fn parts(&self) -> impl Iterator<Item = (usize, usize, Range<usize>)> + use<> {
        let inputs = *self;
        let taps = (0..self.rows).flat_map(move |row| (0..inputs.taps).map(move |tap| (row, tap)));
        taps.flat_map(move |(row, tap)| inputs.channel_blocks().map(move |block| (row, tap, block)))
    }
}

/// Packed weights of one dense convolution.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed<T> {
    pub blocks: Blocks,
    pub inputs: Inputs,
    data: Aligned<T>,
    start: Aligned<T>,
}

impl<T: Real> Packed<T> {
    /// Sets the sizes; start values are then zero, and so are the lanes beyond the last channel.
    fn resize(&mut self, blocks: Blocks, inputs: Inputs) {
        self.blocks = blocks;
        self.inputs = inputs;
        self.data.resize(blocks.padded() * inputs.len());
        self.start.resize(blocks.padded());
    }

    /// Packs weights `[inputs][channels]`.
    pub fn fill_rows(&mut self, team: &Team, blocks: Blocks, inputs: Inputs, weight: &[T]) {
        self.fill(team, blocks, inputs, |block, to| {
            let (width, existing) = (block.vecs * blocks.lanes, block.existing(blocks.lanes));
            for (row, tap, channels) in inputs.parts() {
                let to = &mut to[inputs.position(block.vecs, row, tap, &channels) * width..];
                let first = (row * inputs.taps + tap) * inputs.channels + channels.start;
                let from = weight[first * blocks.channels..].chunks_exact(blocks.channels).take(channels.len());
                for (to, from) in to.chunks_mut(width * inputs.step(block.vecs)).zip(from) {
                    copy(&mut to[..existing], &from[block.first..]);
                }
            }
        });
    }

    /// Packs the transposes of matrices `[channels][input channels]`, one for each tap, that start at `offsets`.
    pub fn fill_columns(&mut self, team: &Team, blocks: Blocks, inputs: Inputs, offsets: &[usize], weight: &[T]) {
        let inner = inputs.channels;
        self.fill(team, blocks, inputs, |block, to| {
            let (width, existing) = (block.vecs * blocks.lanes, block.existing(blocks.lanes));
            let step = inputs.step(block.vecs) * width;
            // A block of channels at a time: its lines stay in the cache until every column has written to them.
            for (row, tap, channels) in inputs.parts() {
                let to = &mut to[inputs.position(block.vecs, row, tap, &channels) * width..];
                let from = &weight[offsets[row * inputs.taps + tap] + block.first * inner..];
                for (c, from) in from.chunks_exact(inner).take(existing).enumerate() {
                    let to = to.iter_mut().skip(c).step_by(step);
                    to.zip(&from[channels.clone()]).for_each(|(to, from)| *to = *from);
                }
            }
        });
    }

    /// Fills the weights of each block.
    fn fill(&mut self, team: &Team, blocks: Blocks, inputs: Inputs, fill: impl Fn(ChannelBlock, &mut [T]) + Sync) {
        self.resize(blocks, inputs);
        let data = SharedMut::new(self.data.as_mut_slice());
        team.run(blocks.count(), |_, part| {
            let block = blocks.all().nth(part).expect("a part is one of the blocks");
            let first = block.first * inputs.len();
            // SAFETY: blocks do not overlap.
            fill(block, unsafe { data.part(first..first + block.vecs * blocks.lanes * inputs.len()) });
        });
    }

    /// Start values of the sums: the bias.
    pub fn set_start(&mut self, bias: &[T]) {
        self.start.as_mut_slice()[..bias.len()].copy_from_slice(bias);
    }

    /// Weights of a block.
    pub fn weights(&self, block: ChannelBlock) -> &[T] {
        let width = block.vecs * self.blocks.lanes;
        &self.data.as_slice()[block.first * self.inputs.len()..][..self.inputs.len() * width]
    }

    /// Start values of a block's channels.
    pub fn start(&self, block: ChannelBlock) -> &[T] {
        &self.start.as_slice()[block.first..][..block.vecs * self.blocks.lanes]
    }
}

/// The reduction of an output as pieces of contiguous inputs, cut into slices whose weights stay in the cache.
#[derive(Default)]
pub(super) struct Reduction {
    pub pieces: Vec<Piece>,
    /// For each slice its pieces and its first reduction element; at least one slice.
    pub slices: Vec<(Range<usize>, usize)>,
}

impl Reduction {
    /// Cuts the reduction over inputs whose rows start at the offsets `rows`; by taps, the pieces of the first tap stand for
    /// all. The cuts depend on the sizes only, so that every output is summed in the same order whatever sub-box it is
    /// computed in.
    pub fn cut(&mut self, inputs: &Inputs, rows: &[usize], by_taps: bool, bytes_per_element: usize) {
        let taps = if by_taps { 1 } else { inputs.taps };
        let total = rows.len() * taps * inputs.channels;
        let count = (total * bytes_per_element).div_ceil(SLICE_BYTES).max(1);
        let end_of = |slice: usize| (slice + 1) * total / count;
        self.pieces.clear();
        self.slices.clear();
        let (mut done, mut first, mut start) = (0, 0, 0);
        for row in rows {
            for block in inputs.channel_blocks() {
                for tap in 0..taps {
                    let mut offset = row + tap * inputs.channels + block.start;
                    let end = done + block.len();
                    while done < end {
                        let len = end.min(end_of(self.slices.len())) - done;
                        self.pieces.push(Piece { offset, len });
                        (offset, done) = (offset + len, done + len);
                        if done == end_of(self.slices.len()) {
                            self.slices.push((first..self.pieces.len(), start));
                            (first, start) = (self.pieces.len(), done);
                        }
                    }
                }
            }
        }
        if self.slices.is_empty() {
            self.slices.push((0..0, 0));
        }
    }
}
