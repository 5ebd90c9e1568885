//! Weights in the order in which the kernels read them: `[block of output channels][reduction][vectors of the block]`.

use super::dispatch::MAX_VECS;
use super::tile::Piece;
use shardmark_tensor::Real;
use std::ops::Range;

/// Bytes of weights that stay in the first-level cache while a kernel goes over many outputs.
const SLICE_BYTES: usize = 24 << 10;

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

impl Blocks {
    /// Channels rounded up to vectors.
    pub fn padded(&self) -> usize {
        self.channels.next_multiple_of(self.lanes)
    }

    /// The blocks of `vecs` vectors.
    pub fn of(self, vecs: usize) -> impl Iterator<Item = ChannelBlock> {
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

    /// All blocks.
    pub fn all(self) -> impl Iterator<Item = ChannelBlock> {
        (1..=MAX_VECS).rev().flat_map(move |vecs| self.of(vecs))
    }
}

/// Packed weights of one dense convolution over `reduction` inputs an output.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed<T> {
    pub blocks: Blocks,
    /// Inputs of an output: taps times channels.
    pub reduction: usize,
    data: Aligned<T>,
    start: Aligned<T>,
}

impl<T: Real> Packed<T> {
    /// Packs rows of output channels: `row(r)` holds the weights of reduction element `r` (all `channels`).
    pub fn fill(&mut self, lanes: usize, channels: usize, reduction: usize, mut row: impl FnMut(usize, &mut [T])) {
        self.blocks = Blocks { channels, lanes };
        self.reduction = reduction;
        let padded = self.blocks.padded();
        self.data.resize(padded * reduction);
        self.start.resize(padded);
        self.start.as_mut_slice().fill(T::ZERO);
        let mut whole = vec![T::ZERO; padded];
        let data = self.data.as_mut_slice();
        for r in 0..reduction {
            row(r, &mut whole[..channels]);
            for block in self.blocks.all() {
                let width = block.vecs * lanes;
                let to = block.first * reduction + r * width;
                data[to..to + width].copy_from_slice(&whole[block.first..block.first + width]);
            }
        }
    }

    /// Start values of the sums: the bias.
    pub fn set_start(&mut self, bias: &[T]) {
        self.start.as_mut_slice()[..bias.len()].copy_from_slice(bias);
    }

    /// Weights of a block, `[reduction][vecs * lanes]`.
    pub fn weights(&self, block: ChannelBlock) -> &[T] {
        let width = block.vecs * self.blocks.lanes;
        &self.data.as_slice()[block.first * self.reduction..][..self.reduction * width]
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
    /// Cuts runs of `run` inputs at the offsets `rows`. The cuts depend on the sizes only, so that every output is
    /// summed in the same order whatever sub-box it is computed in.
    pub fn cut(&mut self, rows: &[usize], run: usize, bytes_per_element: usize) {
        let total = rows.len() * run;
        let count = (total * bytes_per_element).div_ceil(SLICE_BYTES).max(1);
        self.pieces.clear();
        self.slices.clear();
        for i in 0..count {
            let (mut at, end) = (i * total / count, (i + 1) * total / count);
            let (first, from) = (self.pieces.len(), at);
            while at < end {
                let (row, within) = (at / run, at % run);
                let len = (run - within).min(end - at);
                self.pieces.push(Piece { offset: rows[row] + within, len });
                at += len;
            }
            self.slices.push((first..self.pieces.len(), from));
        }
    }
}
