//! The order of a pass over a layer's block around the arrival of its halo.
//!
//! The block is cut into slabs. While the halo is on its way, of each slab only the interior is computed; once it is there,
//! whole slabs are, and at last the sides of those that were begun without it. So the sides, which are thin boxes that
//! kernels compute slowly, are no larger than the halo's journey is long.

use crate::error::TrainError;
use crate::exchange::{Arrival, Pending, finish};
use crate::trainer::Trainer;
use shardmark_layers::Float;
use shardmark_partition::{Dim, Region, Span};
use shardmark_tensor::Block;

/// Floating-point operations of a slab: some milliseconds. An MPI library moves long messages, and any communicator the
/// pieces of a reduction, only while it is called.
const FLOPS: u64 = 500_000_000;
/// Elements that a slab reads and writes, where these take longer.
const ELEMENTS: u64 = 2 << 20;

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

/// A box cut into its samples, and these along D unless H is much longer, between pairs of neighbours from an even position
/// on: kernels compute such pairs.
fn slabs(whole: Region, pieces: u64) -> Vec<Region> {
    let [n, d, h] = [Dim::N, Dim::D, Dim::H].map(|dim| whole.span(dim));
    let samples = if pieces > 1 { n.len().clamp(1, pieces as usize) } else { 1 };
    let (dim, span) = if h.len() > 4 * d.len() { (Dim::H, h) } else { (Dim::D, d) };
    let count = (pieces as usize).div_ceil(samples).clamp(1, span.len().max(1));
    let cut = |i: usize| match span.lo + (i * span.len() / count) as i64 {
        at if 0 < i && i < count => at + at.rem_euclid(2),
        at => at,
    };
    let sample = |i: usize| n.lo + (i * n.len() / samples) as i64;
    let boxes = (0..samples * count).map(|i| {
        let (i, piece) = (i / count, i % count);
        whole.with(Dim::N, Span::new(sample(i), sample(i + 1))).with(dim, Span::new(cut(piece), cut(piece + 1)))
    });
    boxes.filter(|part| samples * count == 1 || !part.is_empty()).collect()
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
            let is_there = |pending: &mut Pending| waits && (nothing_else || n > 0 && pending.is_there(self.comm));
            if let Some(there) = pending.take_if(is_there) {
                finish(self.comm, there, source, Arrival::Overwrite, &mut self.clock.phases)?;
                waits = false;
            }
            let part = if waits { &slab.interior } else { &slab.whole };
            begun += usize::from(waits);
            if !waits || !part.is_empty() {
                run(self, source, part)?;
            }
        }
        if let Some(pending) = pending {
            finish(self.comm, pending, source, Arrival::Overwrite, &mut self.clock.phases)?;
        }
        boxes.0[..begun].iter().flat_map(|slab| &slab.sides).try_for_each(|side| run(self, source, side))
    }
}
