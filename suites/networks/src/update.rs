//! From a rank's own gradients to updated parameters: sums are scattered over the ranks, each rank updates its share, all
//! shares are gathered. All of it runs beside the rest of the backward pass. Divided parameters need no communication.

use crate::bucket::{Bucket, Field};
use crate::clock::lap;
use crate::error::TrainError;
use crate::trainer::Trainer;
use shardmark_comm::{CommExt, ReduceOp, Request};
use shardmark_layers::{Float, Param};
use std::time::Instant;

/// What becomes of a rank's share of a gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// All ranks get it.
    Gradients,
    /// Its parameters are updated, and all ranks get them.
    Update,
}

/// A collective for the bucket of a layer that is under way.
pub(crate) struct Flight {
    pub layer: usize,
    pub request: Request,
    pub started: Instant,
}

fn grad<T>(param: &mut Param<T>) -> &mut Vec<T> {
    &mut param.grad
}

fn value<T>(param: &mut Param<T>) -> &mut Vec<T> {
    &mut param.value
}

impl<T: Float> Trainer<'_, T> {
    /// Takes the gradients of layer `i`, which are this rank's own, on their way; those of divided parameters are there.
    pub(crate) fn reduce(&mut self, i: usize) -> Result<(), TrainError> {
        if self.gather.is_none() || self.stages[i].divides {
            if self.goal == Goal::Update {
                self.step_share(i);
            }
            return Ok(());
        }
        let started = Instant::now();
        let bucket = &self.buckets[i];
        let gradients = bucket.take(self.layers[i].params_mut(), grad);
        let request = self.comm.ireduce_scatter_vec(gradients, &bucket.counts, ReduceOp::Sum)?;
        self.sums.push_back(Flight { layer: i, request, started });
        self.comm.progress()?;
        lap(started, &mut self.clock.phases.grad_exposed);
        Ok(())
    }

    /// Advances everything under way, and updates the shares whose gradients are there.
    pub(crate) fn look(&mut self) -> Result<(), TrainError> {
        loop {
            let start = Instant::now();
            let Some(front) = self.sums.front() else {
                self.comm.progress()?;
                let phases = &mut self.clock.phases;
                let halo = self.sums.is_empty() && self.gathers.is_empty();
                lap(start, if halo { &mut phases.halo_exposed } else { &mut phases.grad_exposed });
                return Ok(());
            };
            let arrived = self.comm.test(&front.request)?;
            lap(start, &mut self.clock.phases.grad_exposed);
            if !arrived {
                return Ok(());
            }
            self.land_one()?;
        }
    }

    /// Waits for the sums of the bucket that has been under way longest, makes of them what the goal is, and sends that to
    /// all. Buckets are gathered by a communicator of their own: when the sums of one are there depends on the rank, but not
    /// the order of buckets.
    pub(crate) fn land_one(&mut self) -> Result<(), TrainError> {
        let Some(Flight { layer, request, started }) = self.sums.pop_front() else { return Ok(()) };
        let start = Instant::now();
        let sums = self.comm.wait_vec::<T>(request)?;
        self.buckets[layer].give(self.layers[layer].params_mut(), grad, sums);
        lap(start, &mut self.clock.phases.grad_exposed);
        if self.goal == Goal::Update {
            self.step_share(layer);
        }
        self.gather_shares(layer, started)
    }

    /// Updates this rank's share of a layer's parameters.
    pub(crate) fn step_share(&mut self, layer: usize) {
        let start = Instant::now();
        let Bucket { own, slot, .. } = &self.buckets[layer];
        for (j, (param, own)) in self.layers[layer].params_mut().iter_mut().zip(own).enumerate() {
            self.optimizer.step(self.team, slot + j, &mut param.value[own.clone()], &param.grad[own.clone()]);
        }
        lap(start, &mut self.clock.phases.optimizer);
    }

    /// The vectors of a bucket that are gathered.
    fn result(&self) -> Field<T> {
        match self.goal {
            Goal::Gradients => grad,
            Goal::Update => value,
        }
    }

    /// Sends this rank's share of a bucket to all, unless it is divided for good.
    pub(crate) fn gather_shares(&mut self, layer: usize, started: Instant) -> Result<(), TrainError> {
        let Some(gather) = self.gather.as_ref().filter(|_| !self.stages[layer].divides) else { return Ok(()) };
        let start = Instant::now();
        let (bucket, result) = (&self.buckets[layer], self.result());
        let shares = bucket.take(self.layers[layer].params_mut(), result);
        let request = gather.iallgatherv_vec(shares, &bucket.counts)?;
        self.gathers.push_back(Flight { layer, request, started });
        self.comm.progress()?;
        lap(start, &mut self.clock.phases.grad_exposed);
        Ok(())
    }

    /// Waits until nothing is under way any more.
    pub(crate) fn land_all(&mut self) -> Result<(), TrainError> {
        while !self.sums.is_empty() {
            self.land_one()?;
        }
        let result = self.result();
        let Some(gather) = &self.gather else { return Ok(()) };
        let start = Instant::now();
        self.outbox.clear(self.comm)?;
        lap(start, &mut self.clock.phases.halo_exposed);
        while let Some(Flight { layer, request, started }) = self.gathers.pop_front() {
            let start = Instant::now();
            let shares = gather.wait_vec::<T>(request)?;
            self.buckets[layer].give(self.layers[layer].params_mut(), result, shares);
            lap(start, &mut self.clock.phases.grad_exposed);
            lap(started, &mut self.clock.phases.grad_total);
        }
        Ok(())
    }

    /// Applies the optimizer to the gradients in the parameters, after [`Trainer::gradients`].
    ///
    /// # Errors
    /// When communication fails.
    pub fn update(&mut self) -> Result<(), TrainError> {
        self.goal = Goal::Update;
        self.optimizer.begin_step();
        for i in (0..self.layers.len()).rev() {
            if self.buckets[i].own.is_empty() {
                continue;
            }
            self.step_share(i);
            self.gather_shares(i, Instant::now())?;
        }
        self.land_all()?;
        self.step += 1;
        Ok(())
    }
}
