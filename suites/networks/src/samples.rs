//! Parameter gradients of layers with many parameters and few outputs: every rank gets the inputs and output gradients of
//! all samples and sums what belongs to its share, so that ranks without samples work too and no zeros are sent.

use crate::clock::lap;
use crate::error::TrainError;
use crate::plan::NetPlan;
use crate::stage::Stage;
use crate::trainer::Trainer;
use crate::update::Flight;
use shardmark_comm::CommExt;
use shardmark_layers::Float;
use shardmark_partition::{Coords, Dim, Region, Span};
use shardmark_tensor::Block;
use std::time::Instant;

/// The samples of a layer on all ranks.
pub(crate) struct Samples {
    /// Inputs and outputs that this rank owns.
    x: Region,
    y: Region,
    /// Elements of one sample's input and output gradient.
    sample: [usize; 2],
    /// Elements of each rank: the inputs of its samples, then their output gradients.
    counts: Vec<usize>,
}

impl Samples {
    /// Layer `i` of a plan on the rank at `at`; `None` where gradients of all parameters are summed.
    pub fn new(plan: &NetPlan, i: usize, at: &Coords) -> Option<Self> {
        let (lp, grid) = (plan.layer(i), &plan.grid);
        plan.gathers_samples(i).then(|| {
            let samples = |rank: usize| lp.own_x(grid, &grid.coords(rank)).span(Dim::N).len();
            let one = |region: Region| region.with(Dim::N, Span::new(0, 1)).len();
            Samples {
                x: lp.own_x(grid, at),
                y: lp.own_y(grid, at),
                sample: [one(Region::full(lp.x)), one(Region::full(lp.y))],
                counts: (0..grid.size()).map(|rank| samples(rank) * plan.sample_len(i)).collect(),
            }
        })
    }

    /// x and dy of each sample of a payload, in the order of the batch.
    fn split<'s, T>(&'s self, payload: &'s [T]) -> impl Iterator<Item = (&'s [T], &'s [T])> {
        let [x_len, y_len] = self.sample;
        let starts = self.counts.iter().scan(0, |next, &count| {
            let start = *next;
            *next += count;
            Some(start..*next)
        });
        starts.flat_map(move |part| {
            let part = &payload[part];
            let (x, dy) = part.split_at(part.len() / (x_len + y_len) * x_len);
            x.chunks_exact(x_len).zip(dy.chunks_exact(y_len))
        })
    }
}

impl<T: Float> Trainer<'_, T> {
    /// Sends the own samples of layer `i`, where its gradients are summed by share, to all ranks.
    pub(crate) fn gather_samples(&mut self, i: usize, stage: &Stage, dy: &Block<T>) -> Result<(), TrainError> {
        let Some(Samples { x, y, counts, .. }) = &stage.samples else { return Ok(()) };
        let started = Instant::now();
        let total = counts.iter().sum();
        let mut payload = self.pool.stale_vec(total);
        payload.truncate(counts[..self.comm.rank()].iter().sum());
        if !x.is_empty() {
            self.tensors[i].pack_into(x, &mut payload);
            dy.pack_into(y, &mut payload);
        }
        payload.resize(total, T::ZERO);
        let request = self.comm.iallgatherv_vec(payload, counts)?;
        self.sums.push_back(Flight { layer: i, request, started });
        lap(started, &mut self.clock.phases.grad_exposed);
        Ok(())
    }

    /// Lets the gradients from gathered samples be computed from now on; a rank without samples of its own, which waits for
    /// the others in any case, computes them at once.
    pub(crate) fn begin_shares(&mut self, stage: &Stage) -> Result<(), TrainError> {
        self.held = false;
        if !stage.own_y.is_empty() {
            return self.look();
        }
        while !self.sums.is_empty() {
            self.land_one()?;
        }
        Ok(())
    }

    /// Computes the gradients of the share of a layer from the samples of all ranks.
    pub(crate) fn sum_share(&mut self, layer: usize, samples: &Samples, payload: Vec<T>) {
        let start = Instant::now();
        if let Some(share) = &mut self.shares[layer] {
            share.sum(self.team, samples.split(&payload), self.layers[layer].params_mut());
        }
        self.pool.give_vec(payload);
        lap(start, &mut self.clock.layers[layer].backward_params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_split_into_samples_in_order() {
        let (x, y) = (Region::default(), Region::default());
        let samples = Samples { x, y, sample: [2, 1], counts: vec![6, 0, 3] };
        let payload = [10, 11, 20, 21, 12, 22, 30, 31, 32];
        let got: Vec<(&[i32], &[i32])> = samples.split(&payload).collect();
        assert_eq!(got, [(&[10, 11][..], &[12][..]), (&[20, 21], &[22]), (&[30, 31], &[32])]);
    }
}
