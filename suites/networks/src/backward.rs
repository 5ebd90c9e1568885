//! The backward pass of a rank: data gradients first, so that the next halo leaves early; the parameter gradients of a
//! layer are computed while the halo of the layer below is on its way, and their reduction starts at once.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, finish, post};
use crate::plan::LayerPlan;
use crate::trainer::{Reduction, Trainer};
use shardmark_comm::{CommExt, ReduceOp};
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::time::Instant;

/// Parameter gradients that wait for the next halo to be posted.
struct Deferred<T> {
    layer: usize,
    dy: Block<T>,
}

impl<T: Float> Trainer<'_, T> {
    /// Propagates the gradient of the prediction and starts the reduction of every parameter gradient.
    pub(crate) fn backward(&mut self, dpred: Block<T>) -> Result<(), TrainError> {
        let start = Instant::now();
        let (grid, at) = (self.plan.grid, self.at);
        let mut dy = dpred;
        let mut deferred: Option<Deferred<T>> = None;
        for i in (0..self.plan.graph.nodes.len()).rev() {
            let lp = self.plan.layer(i);
            let pending = match &lp.grad_halo {
                Some(halo) => {
                    dy.fill_outside(&Region::full(lp.y), T::ZERO);
                    Some(post(self.comm, halo, &grid, &at, &dy, &mut self.clock.phases)?)
                }
                None => None,
            };
            self.finish_deferred(deferred.take())?;
            let layer_start = Instant::now();
            let dx = if lp.needs_dx { Some(self.data_gradient(i, &lp, &mut dy, pending)?) } else { None };
            lap(layer_start, &mut self.clock.layers[i].backward_data);
            let own_dy = std::mem::replace(&mut dy, dx.unwrap_or_default());
            if self.layers[i].params().is_empty() {
                self.pool.give(own_dy);
            } else {
                deferred = Some(Deferred { layer: i, dy: own_dy });
            }
            // Nobody below needs this layer's output any more.
            let output = std::mem::take(&mut self.tensors[i + 1]);
            self.pool.give(output);
            if let Some(output) = self.moved_away.remove(&(i + 1)) {
                self.pool.give(output);
            }
        }
        self.finish_deferred(deferred.take())?;
        lap(start, &mut self.clock.phases.backward);
        Ok(())
    }

    /// Gradient of layer `i`'s input, in the distribution and with the margins that the layer below wants.
    fn data_gradient(
        &mut self,
        i: usize,
        lp: &LayerPlan,
        dy: &mut Block<T>,
        pending: Option<crate::exchange::Pending>,
    ) -> Result<Block<T>, TrainError> {
        let (grid, at) = (self.plan.grid, self.at);
        let wanted = self.plan.layer(i - 1).dy_block(&grid, &at);
        let stays = lp.scatter.is_none() && lp.grad_redistribute.is_none();
        // Scattering layers add to it; gathering ones write all that is owned.
        let mut dx = if lp.scatter.is_some() {
            self.pool.zeros(lp.dx_block(&grid, &at))
        } else {
            self.pool.stale(if stays { wanted } else { lp.dx_block(&grid, &at) })
        };
        match pending {
            Some(pending) if pending.receives() => {
                let (own, interior) = (lp.own_x(&grid, &at), lp.interior_x(&grid, &at));
                if !interior.is_empty() {
                    self.run_backward(i, dy, &mut dx, &interior)?;
                }
                finish(self.comm, pending, dy, Arrival::Overwrite, &mut self.clock.phases)?;
                for side in own.minus(&interior) {
                    self.run_backward(i, dy, &mut dx, &side)?;
                }
            }
            pending => {
                let part = if lp.scatter.is_some() { lp.own_y(&grid, &at) } else { lp.own_x(&grid, &at) };
                self.run_backward(i, dy, &mut dx, &part)?;
                if let Some(pending) = pending {
                    finish(self.comm, pending, dy, Arrival::Overwrite, &mut self.clock.phases)?;
                }
            }
        }
        if let Some(scatter) = &lp.scatter {
            let pending = post(self.comm, scatter, &grid, &at, &dx, &mut self.clock.phases)?;
            finish(self.comm, pending, &mut dx, Arrival::Add, &mut self.clock.phases)?;
        }
        self.hand_down(lp, dx, wanted)
    }

    /// Moves a finished input gradient into the block of the layer below.
    fn hand_down(&mut self, lp: &LayerPlan, dx: Block<T>, wanted: Region) -> Result<Block<T>, TrainError> {
        let (grid, at) = (self.plan.grid, self.at);
        if *dx.region() == wanted && lp.grad_redistribute.is_none() {
            return Ok(dx);
        }
        let mut below = self.pool.stale(wanted);
        let Some(transfer) = &lp.grad_redistribute else {
            below.copy_from(&dx, &lp.own_x(&grid, &at));
            self.pool.give(dx);
            return Ok(below);
        };
        let pending = post(self.comm, transfer, &grid, &at, &dx, &mut self.clock.phases)?;
        below.copy_from(&dx, &transfer.local(&grid, &at));
        finish(self.comm, pending, &mut below, Arrival::Overwrite, &mut self.clock.phases)?;
        self.pool.give(dx);
        Ok(below)
    }

    fn run_backward(&mut self, i: usize, dy: &Block<T>, dx: &mut Block<T>, part: &Region) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, clock, tensors, moved_away, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, true);
        let y = moved_away.get(&(i + 1)).unwrap_or(&tensors[i + 1]);
        layers[i].backward_data(&env, &tensors[i], y, dy, dx, part)?;
        clock.phases.halo_exposed += env.communication_s.get();
        clock.phases.halo_total += env.communication_s.get();
        Ok(())
    }

    /// Parameter gradients of the deferred layer, and the start of their reduction over all ranks.
    fn finish_deferred(&mut self, deferred: Option<Deferred<T>>) -> Result<(), TrainError> {
        let Some(Deferred { layer: i, dy }) = deferred else { return Ok(()) };
        let start = Instant::now();
        let own = self.plan.layer(i).own_y(&self.plan.grid, &self.at);
        let Self { layers, groups, team, seed, step, clock, tensors, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, true);
        layers[i].backward_params(&env, &tensors[i], &dy, &own)?;
        lap(start, &mut clock.layers[i].backward_params);
        self.pool.give(dy);
        if self.comm.size() > 1 {
            let start = Instant::now();
            let params = self.layers[i].params();
            let mut bucket = self.pool.stale_vec(params.iter().map(|p| p.grad.len()).sum());
            let mut rest = bucket.as_mut_slice();
            for param in params {
                let (part, tail) = rest.split_at_mut(param.grad.len());
                part.copy_from_slice(&param.grad);
                rest = tail;
            }
            let request = self.comm.iallreduce_vec::<T>(bucket, ReduceOp::Sum)?;
            self.comm.progress()?;
            lap(start, &mut self.clock.phases.grad_exposed);
            self.reductions.push(Reduction { layer: i, request, started: start });
        }
        Ok(())
    }

    /// Waits for the reductions in the order in which they were started.
    pub(crate) fn finish_reductions(&mut self) -> Result<(), TrainError> {
        for Reduction { layer, request, started } in std::mem::take(&mut self.reductions) {
            let start = Instant::now();
            let bucket = self.comm.wait_vec::<T>(request)?;
            let mut rest = bucket.as_slice();
            for param in self.layers[layer].params_mut() {
                let (grad, tail) = rest.split_at(param.grad.len());
                param.grad.copy_from_slice(grad);
                rest = tail;
            }
            self.pool.give_vec(bucket);
            lap(start, &mut self.clock.phases.grad_exposed);
            lap(started, &mut self.clock.phases.grad_total);
        }
        Ok(())
    }
}
