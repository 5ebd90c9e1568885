//! The order of a pass over a layer's block around the arrival of its halo.
//!
//! The block is cut into slabs. While the halo is on its way, of each slab only the interior is computed; once it is there,
//! whole slabs are, and at last the sides of those that were begun without it. So the sides, which are thin boxes that
//! kernels compute slowly, are no larger than the halo's journey is long.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, Pending, finish};
use crate::trainer::Trainer;
use shardmark_layers::Float;
use shardmark_partition::{Dim, Region, Span};
use shardmark_tensor::Block;
use std::time::Instant;

/// Floating-point operations of a slab: some milliseconds. An MPI library moves long messages, and any communicator the
/// pieces of a reduction, only while it is called.
const FLOPS: u64 = 500_000_000;
/// Elements that a slab reads and writes, where these take longer.
const ELEMENTS: u64 = 2 << 20;

/// Elements of a slab that is read again while it is in the caches: no more than a core has to itself.
const CACHED: usize = if cfg!(test) { 512 } else { 512 << 10 };

/// Slabs that a pass with so many operations and elements is worth.
pub(crate) fn pieces(flops: u64, elements: u64) -> u64 {
    (flops / FLOPS).max(elements / ELEMENTS).max(1)
}

/// The boxes of a pass, in order; those that need no halo come first.
pub(crate) struct Boxes(Vec<Slab>);

struct Slab {
    whole: Region,
    /// What of it needs no halo.
    interior: Region,
    /// The rest of it.
    sides: Vec<Region>,
}

impl Boxes {
    /// `own` in about `pieces` slabs; with the part of it that needs no halo, if one arrives. One slab that is empty, where
    /// nothing is owned: a layer may hold collectives.
    pub fn new(own: Region, interior: Option<Region>, pieces: u64) -> Self {
        let slab = |whole: Region| {
            let interior = interior.map_or(whole, |interior| whole.intersect(&interior));
            Slab { whole, interior, sides: whole.minus(&interior) }
        };
        let mut slabs: Vec<Slab> = slabs(own, pieces).into_iter().map(slab).collect();
        slabs.sort_by_key(|slab| !slab.sides.is_empty());
        Boxes(slabs)
    }
}

/// A box in slabs that stay in the caches, if their planes are not too large.
pub(crate) fn cached_slabs(whole: Region) -> Vec<Region> {
    slabs(whole, cached_pieces(&whole))
}

/// The largest of [`cached_slabs`], without a list of them: of a batch that no memory holds there are too many.
pub(crate) fn largest_cached_slab(whole: Region) -> Region {
    let (samples, dim, cuts) = spans(whole, cached_pieces(&whole));
    let largest = samples.max_by_key(|s| s.len()).zip(cuts.max_by_key(|s| s.len()));
    largest.map_or(whole, |(sample, cut)| whole.with(Dim::N, sample).with(dim, cut))
}

fn cached_pieces(whole: &Region) -> u64 {
    whole.len().div_ceil(CACHED) as u64
}

/// A box in about `pieces` slabs; one that is empty is its own slab.
fn slabs(whole: Region, pieces: u64) -> Vec<Region> {
    if pieces <= 1 || whole.is_empty() {
        return vec![whole];
    }
    let (samples, dim, cuts) = spans(whole, pieces);
    let of_sample = |sample| cuts.clone().map(move |cut| whole.with(Dim::N, sample).with(dim, cut));
    samples.flat_map(of_sample).filter(|slab| !slab.is_empty()).collect()
}

/// Where a box is cut into slabs: into its samples, and these along D unless H is much longer, between pairs of neighbours
/// from an even position on: kernels compute such pairs. A pair at the end may leave nothing of the last cut.
fn spans(whole: Region, pieces: u64) -> (impl Iterator<Item = Span>, Dim, impl Iterator<Item = Span> + Clone) {
    let pieces = pieces.max(1) as usize;
    let [n, d, h] = [Dim::N, Dim::D, Dim::H].map(|dim| whole.span(dim));
    let samples = n.len().clamp(1, pieces);
    let (dim, span) = if h.len() > 4 * d.len() { (Dim::H, h) } else { (Dim::D, d) };
    let count = pieces.div_ceil(samples).min(span.len()).max(1);
    let cut = move |i: usize| match span.lo + (i * span.len() / count) as i64 {
        at if 0 < i && i < count => at + at.rem_euclid(2),
        at => at,
    };
    let sample = move |i: usize| n.lo + (i * n.len() / samples) as i64;
    let samples = (0..samples).map(move |i| Span::new(sample(i), sample(i + 1)));
    (samples, dim, (0..count).map(move |i| Span::new(cut(i), cut(i + 1))))
}

impl<T: Float> Trainer<'_, T> {
    /// Calls `run` with the source's block and every box, and writes the halo to the block when it arrives.
    pub(crate) fn sweep(
        &mut self,
        boxes: &Boxes,
        source: &mut Block<T>,
        mut pending: Option<Pending>,
        mut run: impl FnMut(&mut Self, &Block<T>, &Region) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let mut waits = pending.as_ref().is_some_and(Pending::receives);
        let mut begun = 0;
        for (n, slab) in boxes.0.iter().enumerate() {
            if n > 0 {
                self.look()?;
            }
            let nothing_else = boxes.0[n..].iter().all(|slab| slab.interior.is_empty());
            if waits
                && (nothing_else || self.is_there(&pending))
                && let Some(there) = pending.take()
            {
                finish(self.comm, there, source, Arrival::Overwrite, &mut self.outbox, &mut self.clock.phases)?;
                waits = false;
            }
            let part = if waits { &slab.interior } else { &slab.whole };
            begun += usize::from(waits);
            if !waits || !part.is_empty() {
                run(self, source, part)?;
            }
        }
        if let Some(pending) = pending {
            finish(self.comm, pending, source, Arrival::Overwrite, &mut self.outbox, &mut self.clock.phases)?;
        }
        boxes.0[..begun].iter().flat_map(|slab| &slab.sides).try_for_each(|side| run(self, source, side))
    }

    fn is_there(&mut self, pending: &Option<Pending>) -> bool {
        let start = Instant::now();
        let there = pending.as_ref().is_some_and(|pending| pending.is_there(self.comm));
        lap(start, &mut self.clock.phases.halo_exposed);
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(boxes: &[Region], dim: Dim) -> Vec<[i64; 2]> {
        boxes.iter().map(|slab| [slab.span(dim).lo, slab.span(dim).hi]).collect()
    }

    #[test]
    fn slabs_meet_at_even_coordinates_and_cover_the_block() {
        let whole = Region::full([1, 12, 4, 3, 2]).with(Dim::D, Span::new(3, 12));
        assert_eq!(spans(&slabs(whole, 1), Dim::D), [[3, 12]]);
        assert_eq!(spans(&slabs(whole, 2), Dim::D), [[3, 8], [8, 12]]);
        assert_eq!(spans(&slabs(whole, 99), Dim::D), [[3, 4], [4, 6], [6, 8], [8, 10], [10, 12]]);
        let flat = Region::full([3, 1, 16, 3, 2]);
        assert_eq!(spans(&slabs(flat, 5), Dim::N), [[0, 1], [0, 1], [1, 2], [1, 2], [2, 3], [2, 3]]);
        assert_eq!(spans(&slabs(flat, 5), Dim::H), [[0, 8], [8, 16]].repeat(3));
        for pieces in 1..20 {
            let all = slabs(flat, pieces);
            assert_eq!(all.iter().map(Region::len).sum::<usize>(), flat.len());
        }
        for shape in [[3, 1, 16, 30, 20], [2, 13, 9, 9, 8], [700, 2, 2, 2, 2], [1, 1, 1, 1, 1], [0, 4, 4, 4, 1]] {
            let whole = Region::full(shape);
            assert_eq!(Some(largest_cached_slab(whole)), cached_slabs(whole).into_iter().max_by_key(Region::len));
        }
        assert_eq!(slabs(Region::full([0, 4, 4, 4, 1]), 7).len(), 1, "a layer may hold collectives");
    }

    #[test]
    fn slabs_that_need_no_halo_come_first() {
        let own = Region::full([1, 16, 8, 8, 4]);
        let interior = own.with(Dim::D, Span::new(2, 16));
        let Boxes(slabs) = Boxes::new(own, Some(interior), 4);
        let firsts: Vec<i64> = slabs.iter().map(|slab| slab.whole.span(Dim::D).lo).collect();
        assert_eq!(firsts, [4, 8, 12, 0]);
        assert_eq!(slabs[3].sides, [own.with(Dim::D, Span::new(0, 2))]);
        assert!(slabs[..3].iter().all(|slab| slab.interior == slab.whole && slab.sides.is_empty()));
    }
}
