//! Weights in the order in which the kernels read them: `[block of output channels][reduction][vectors of the block]`.
//!
//! Weights that many outputs use are packed once. Those of few outputs are packed slice by slice into a buffer of the
//! thread that uses them at once: they are read from memory and never written to it.

use super::dispatch::{Kernels, MAX_VECS};
use super::dot::Dot;
use super::fill::Run;
use super::reduction::{Reduction, SLICE_BYTES};
use super::sweep::Sweep;
use super::tile::{TAPS, UNROLLED, by_taps};
use shardmark_host::{SharedMut, Team};
use shardmark_tensor::Real;
use std::ops::Range;

/// Bytes of weights that stay in the second-level cache beside inputs.
const CACHED: usize = 512 << 10;
/// Bytes of the weights of one input in a wide block, with the widest vectors.
const WIDTH_BYTES: usize = 128;

/// Bytes of a line of the caches.
pub(super) const CACHE_LINE: usize = 64;

/// A vector that starts at a cache line.
#[derive(Clone, Debug, Default)]
pub(super) struct Aligned<T> {
    data: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Real> Aligned<T> {
    /// Makes it `len` long; what it holds is then unspecified but initialised.
    pub fn resize(&mut self, len: usize) {
        let spare = CACHE_LINE / T::BYTES;
        if self.data.len() < len + spare {
            self.data.resize(len + spare, T::ZERO);
            self.first = self.data.as_ptr().align_offset(CACHE_LINE).min(spare);
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

/// Weights that are needed soon: so many lines of the caches at each of some rows; 0 lines where rows adjoin.
#[derive(Clone, Copy)]
pub(super) struct Ahead<T> {
    from: *const T,
    /// Elements from one row to the next.
    step: usize,
    lines: usize,
}

impl<T: Real> Ahead<T> {
    /// The share of one of `tiles` tiles that ask `asks` times each: the first place, and the step to the next.
    pub fn share(self, tile: usize, tiles: usize, asks: usize) -> (*const T, usize) {
        if self.lines == 0 {
            return (self.from.wrapping_add(tile * asks * self.step / tiles), self.step / tiles);
        }
        let (row, line) = (tile / self.lines * asks, tile % self.lines);
        (self.from.wrapping_add(row * self.step + line * (CACHE_LINE / T::BYTES)), self.step)
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
        self.dense_w && by_taps(vecs, self.taps)
    }

    /// Whether neighbouring outputs of a sweep share none.
    pub fn are_apart(&self, sweep: &Sweep) -> bool {
        self.rows * self.taps == 1 || sweep.x_step[3] >= self.taps * self.channels
    }

    /// Blocks of channels.
    pub fn channel_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Inputs { taps, channels, .. } = *self;
        let most = (SLICE_BYTES / WIDTH_BYTES / taps.max(1) / LINE * LINE).max(LINE);
        let count = if taps > 1 { channels.div_ceil(most) } else { 1 };
        (0..count).map(move |i| i * channels / count..(i + 1) * channels / count)
    }

    /// The runs of adjoining inputs in the order in which they are summed, as first input and length; by taps, those of the
    /// first tap stand for all. The taps of a row with one block of channels adjoin.
    pub fn runs(&self, by_taps: bool) -> impl Iterator<Item = (usize, usize)> + use<> {
        let mut inputs = *self;
        if !by_taps && inputs.channel_blocks().count() == 1 {
            (inputs.taps, inputs.channels) = (1, inputs.taps * inputs.channels);
        }
        let taps = if by_taps { 1 } else { inputs.taps };
        let blocks = (0..inputs.rows).flat_map(move |row| inputs.channel_blocks().map(move |block| (row, block)));
        blocks.flat_map(move |(row, block)| {
            (0..taps).map(move |tap| ((row * inputs.taps + tap) * inputs.channels + block.start, block.len()))
        })
    }
}

/// Outputs up to which weights are packed as they are used. More use them so often that one packed copy costs less.
const FEW_OUTPUTS: usize = 256;
/// The same where outputs share no inputs: they are two chunks of tiles with the widest vectors, which pack each weight twice.
const FEW_APART: usize = 448;

/// Where weights lie before they are packed.
enum Order {
    /// `[inputs][channels]`.
    Rows,
    /// A matrix `[channels][input channels]` for each tap of each row, which start at these offsets.
    Columns(Vec<usize>),
}

/// Weights of one dense convolution.
pub(super) struct Packed<T: 'static> {
    kernels: &'static Kernels<T>,
    pub blocks: Blocks,
    pub inputs: Inputs,
    order: Order,
    /// All weights, if there was reason to pack them since they changed.
    data: Aligned<T>,
    is_filled: bool,
    start: Aligned<T>,
    /// In place of `data` where output channels are few.
    dot: Option<Dot<T>>,
}

impl<T: Real> Packed<T> {
    /// For weights `[inputs][channels]`.
    pub fn rows(kernels: &'static Kernels<T>, channels: usize, inputs: Inputs) -> Self {
        Self::new(kernels, channels, inputs, Order::Rows)
    }

    /// For matrices `[channels][input channels]`, one for each tap, that start at `offsets`.
    pub fn columns(kernels: &'static Kernels<T>, channels: usize, inputs: Inputs, offsets: Vec<usize>) -> Self {
        Self::new(kernels, channels, inputs, Order::Columns(offsets))
    }

    fn new(kernels: &'static Kernels<T>, channels: usize, inputs: Inputs, order: Order) -> Self {
        let blocks = Blocks { channels, lanes: kernels.lanes };
        let mut start = Aligned::default();
        start.resize(blocks.padded());
        let dot = Dot::new(kernels, channels, &inputs);
        Packed { kernels, blocks, inputs, order, data: Aligned::default(), is_filled: false, start, dot }
    }

    /// The weights have changed: what was packed is of no use any more.
    pub fn forget(&mut self) {
        self.is_filled = false;
    }

    /// Takes the start values `bias`, or 0 if that is empty, and makes sure that there are as many weights as will be read.
    pub fn begin(&mut self, weight: &[T], bias: &[T]) {
        self.start.as_mut_slice()[..bias.len()].copy_from_slice(bias);
        let Packed { blocks: Blocks { channels, .. }, inputs, .. } = *self;
        let end = match &self.order {
            Order::Rows => inputs.len() * channels,
            Order::Columns(offsets) => offsets.iter().max().map_or(0, |first| first + channels * inputs.channels),
        };
        assert!(end <= weight.len(), "there is a weight for every input and channel");
    }

    /// Prepares for the outputs of a sweep with these weights; sums start at `bias`, or at 0 if that is empty.
    pub fn prepare(&mut self, team: &Team, weight: &[T], bias: &[T], sweep: &Sweep) {
        self.begin(weight, bias);
        let Packed { blocks: Blocks { channels, .. }, inputs, .. } = *self;
        if self.is_filled {
            return;
        }
        if let Some(dot) = &mut self.dot {
            let first = |row: usize, tap: usize| (row * inputs.taps + tap) * inputs.channels;
            dot.fill(channels, &inputs, |row, out, tap, channel| match &self.order {
                Order::Rows => weight[(first(row, tap) + channel) * channels + out],
                Order::Columns(offsets) => weight[offsets[row * inputs.taps + tap] + out * inputs.channels + channel],
            });
            self.is_filled = true;
        } else if sweep.outputs() > if inputs.are_apart(sweep) { FEW_APART } else { FEW_OUTPUTS } {
            self.fill(team, weight);
            self.is_filled = true;
        }
    }

    /// The weights for few output channels.
    pub fn dot(&self) -> Option<&Dot<T>> {
        self.dot.as_ref()
    }

    /// Packs all weights.
    fn fill(&mut self, team: &Team, weight: &[T]) {
        let (blocks, inputs) = (self.blocks, self.inputs);
        self.data.resize(blocks.padded() * inputs.len());
        let mut data = std::mem::take(&mut self.data);
        let shared = SharedMut::new(data.as_mut_slice());
        team.run(blocks.count(), |_, part| {
            let block = blocks.all().nth(part).expect("a part is one of the blocks");
            let first = block.first * inputs.len();
            // SAFETY: blocks do not overlap.
            let to = unsafe { shared.part(first..first + block.vecs * blocks.lanes * inputs.len()) };
            self.copy(block, inputs.runs(inputs.by_taps(block.vecs)), weight, to);
        });
        self.data = data;
    }

    /// Copies the weights of some runs of inputs, one after the other.
    pub fn copy(
        &self,
        block: ChannelBlock,
        runs: impl Iterator<Item = (usize, usize)>,
        weight: &[T],
        mut to: &mut [T],
    ) {
        let Packed { kernels, blocks: Blocks { channels, lanes }, inputs, .. } = *self;
        let (width, existing) = (block.vecs * lanes, block.existing(lanes));
        let taps = if inputs.by_taps(block.vecs) { TAPS } else { 1 };
        for (first, all) in runs {
            let (here, rest) = to.split_at_mut(all * taps * width);
            for tap in 0..taps {
                let (mut first, mut left) = (first + tap * inputs.channels, all);
                while left > 0 {
                    let (copy, from, from_step, len) = match &self.order {
                        Order::Rows => (kernels.rows, first * channels + block.first, channels, left),
                        Order::Columns(offsets) => {
                            let (tap, channel) = (first / inputs.channels, first % inputs.channels);
                            let from = offsets[tap] + block.first * inputs.channels + channel;
                            (kernels.columns, from, inputs.channels, left.min(inputs.channels - channel))
                        }
                    };
                    let from = weight[from..].as_ptr();
                    let to = here[((all - left) * taps + tap) * width..].as_mut_ptr();
                    let run = Run { from, from_step, to, to_step: taps * width, len, channels: existing };
                    // SAFETY: `begin` has checked that all weights are there, and `here` is as long as the runs; the table
                    // holds kernels of an available instruction set.
                    unsafe { copy(&run) }
                    (first, left) = (first + len, left - len);
                }
            }
            to = rest;
        }
    }

    /// Where the weights of a slice are read from while another is used, if that is not a cache near enough.
    pub fn ahead(&self, block: ChannelBlock, reduction: &Reduction, slice: usize, weight: &[T]) -> Option<Ahead<T>> {
        let Packed { blocks: Blocks { channels, lanes }, inputs, .. } = *self;
        let taps = if inputs.by_taps(block.vecs) { TAPS } else { 1 };
        let width = block.vecs * lanes;
        let (pieces, first) = &reduction.slices[slice];
        if self.is_filled {
            let is_far = std::mem::size_of_val(self.data.as_slice()) > CACHED;
            let from = self.data.as_slice()[block.first * inputs.len() + first * taps * width..].as_ptr();
            return is_far.then_some(Ahead { from, step: UNROLLED * width, lines: 0 });
        }
        let (first, len) = (*reduction.firsts.get(pieces.start)?, reduction.span(slice).len());
        let lines = |elements: usize| (elements * T::BYTES).div_ceil(CACHE_LINE);
        Some(match &self.order {
            Order::Rows => {
                let from = weight[first * channels + block.first..].as_ptr();
                Ahead { from, step: channels, lines: lines(width) }
            }
            Order::Columns(offsets) => {
                let (tap, channel) = (first / inputs.channels, first % inputs.channels);
                let from = weight[offsets[tap] + block.first * inputs.channels + channel..].as_ptr();
                Ahead { from, step: inputs.channels, lines: lines(len) }
            }
        })
    }

    /// The weights of a block for one slice of the reduction of `weight`, perhaps in the buffer `own`.
    pub fn slice<'a>(
        &'a self,
        block: ChannelBlock,
        reduction: &Reduction,
        slice: usize,
        weight: &[T],
        own: &'a mut Aligned<T>,
    ) -> &'a [T] {
        let taps = if self.inputs.by_taps(block.vecs) { TAPS } else { 1 };
        let width = block.vecs * self.blocks.lanes;
        let (pieces, first) = &reduction.slices[slice];
        let lens = reduction.pieces[pieces.clone()].iter().map(|piece| piece.len);
        let len = lens.clone().sum::<usize>() * taps * width;
        if self.is_filled {
            return &self.data.as_slice()[block.first * self.inputs.len() + first * taps * width..][..len];
        }
        own.resize(len);
        let runs = reduction.firsts[pieces.clone()].iter().copied().zip(lens);
        self.copy(block, runs, weight, own.as_mut_slice());
        own.as_slice()
    }

    /// Start values of all channels.
    pub fn starts(&self) -> &[T] {
        &self.start.as_slice()[..self.blocks.channels]
    }

    /// Start values of a block's channels.
    pub fn start(&self, block: ChannelBlock) -> &[T] {
        &self.start.as_slice()[block.first..][..block.vecs * self.blocks.lanes]
    }
}
