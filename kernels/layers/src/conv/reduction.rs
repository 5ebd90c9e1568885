//! The reduction of an output, cut into slices whose weights stay in the first-level cache.

use super::pack::Inputs;
use super::tile::Piece;
use std::ops::Range;

/// Bytes of weights that stay in the first-level cache while a kernel goes over many outputs.
pub(super) const SLICE_BYTES: usize = 24 << 10;

/// The reduction of an output as pieces of contiguous inputs, cut into slices whose weights stay in the cache.
#[derive(Default)]
pub(super) struct Reduction {
    pub pieces: Vec<Piece>,
    /// Each piece's first input.
    pub firsts: Vec<usize>,
    /// For each slice its pieces and its first reduction element; at least one slice.
    pub slices: Vec<(Range<usize>, usize)>,
}

impl Reduction {
    /// Reduction elements of a slice.
    pub fn span(&self, slice: usize) -> Range<usize> {
        let (pieces, first) = &self.slices[slice];
        *first..first + self.pieces[pieces.clone()].iter().map(|piece| piece.len).sum::<usize>()
    }

    /// The inputs of some slices, those that adjoin each other as one piece.
    pub fn runs(&self, slices: Range<usize>) -> impl Iterator<Item = Piece> {
        let pieces = self.slices[slices.start].0.start..self.slices[slices.end - 1].0.end;
        let mut pieces = self.pieces[pieces].iter().copied().peekable();
        std::iter::from_fn(move || {
            let mut run = pieces.next()?;
            while let Some(piece) = pieces.next_if(|piece| piece.offset == run.offset + run.len) {
                run.len += piece.len;
            }
            Some(run)
        })
    }

    /// Cuts the reduction over inputs whose rows start at the offsets `rows`; by taps, the pieces of the first tap stand for
    /// all. The cuts depend on the sizes only, so that every output is summed in the same order whatever sub-box it is
    /// computed in.
    pub fn cut(&mut self, inputs: &Inputs, rows: &[usize], by_taps: bool, bytes_per_element: usize) {
        let taps = if by_taps { 1 } else { inputs.taps };
        let total = rows.len() * taps * inputs.channels;
        let count = (total * bytes_per_element).div_ceil(SLICE_BYTES).max(1);
        let end_of = |slice: usize| (slice + 1) * total / count;
        self.pieces.clear();
        self.firsts.clear();
        self.slices.clear();
        let row = inputs.taps * inputs.channels;
        let (mut done, mut first, mut start) = (0, 0, 0);
        for (mut input, len) in inputs.runs(by_taps) {
            let end = done + len;
            while done < end {
                let len = end.min(end_of(self.slices.len())) - done;
                self.pieces.push(Piece { offset: rows[input / row] + input % row, len });
                self.firsts.push(input);
                (input, done) = (input + len, done + len);
                if done == end_of(self.slices.len()) {
                    self.slices.push((first..self.pieces.len(), start));
                    (first, start) = (self.pieces.len(), done);
                }
            }
        }
        if self.slices.is_empty() {
            self.slices.push((0..0, 0));
        }
    }
}
