//! The samples of all ranks: brought to all, and what all make of them summed at their owners.

use crate::{Env, Float, LayerError};
use shardmark_comm::{CommExt, ReduceOp};
use shardmark_partition::{AxisSet, Dim, Region, Shape};
use shardmark_tensor::Block;

/// How many samples each rank owns, and which rank this is. A tensor of all samples is in the order of ranks.
#[derive(Clone, Debug)]
pub struct Samples {
    rank: usize,
    counts: Vec<usize>,
    /// The elements of each rank in the tensor at hand.
    elements: Vec<usize>,
}

impl Samples {
    /// Rank `rank` of as many as there are counts.
    pub fn new(rank: usize, counts: Vec<usize>) -> Self {
        Samples { rank, counts, elements: Vec::new() }
    }

    /// This rank.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> usize {
        self.counts.len()
    }

    /// Notes how many elements each rank has, and gives those of all and of the ranks before this one.
    fn divide(&mut self, shape: Shape) -> (usize, usize) {
        let sample = shape[1..].iter().product::<usize>();
        self.elements.clear();
        self.elements.extend(self.counts.iter().map(|samples| samples * sample));
        (self.elements.iter().sum(), self.elements[..self.rank].iter().sum())
    }

    /// Fills `all` with a tensor of all samples, of which `block` has those of `part`.
    pub(super) fn gather<T: Float>(
        &mut self,
        env: &Env,
        shape: Shape,
        block: &Block<T>,
        part: &Region,
        all: &mut Vec<T>,
    ) -> Result<(), LayerError> {
        let (total, before) = self.divide(shape);
        all.resize(total, T::ZERO);
        all.truncate(before);
        if !part.is_empty() {
            block.pack_into(&whole(shape, part), all);
        }
        all.resize(total, T::ZERO);
        if let Some(group) = env.groups.group(AxisSet::ALL) {
            let payload = std::mem::take(all);
            *all = env.communicate(|| group.wait_vec(group.iallgatherv_vec(payload, &self.elements)?))?;
        }
        Ok(())
    }

    /// Sums `partial`, a tensor of all samples, over the ranks, and places the samples of `part` in `target`.
    pub(super) fn sum<T: Float>(
        &mut self,
        env: &Env,
        shape: Shape,
        partial: &mut Vec<T>,
        target: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let (_, before) = self.divide(shape);
        if let Some(group) = env.groups.group(AxisSet::ALL) {
            let payload = std::mem::take(partial);
            let request = || group.ireduce_scatter_vec(payload, &self.elements, ReduceOp::Sum);
            *partial = env.communicate(|| group.wait_vec(request()?))?;
        }
        if !part.is_empty() {
            let own = whole(shape, part);
            target.unpack(&own, &partial[before..before + own.len()]);
        }
        Ok(())
    }
}

/// The samples of `part`, in a tensor of a shape.
fn whole(shape: Shape, part: &Region) -> Region {
    Region::full(shape).with(Dim::N, part.span(Dim::N))
}
