//! The backward pass of a rank: data gradients first, so that the next halo leaves early; the parameter gradients of a
//! layer are computed while the halo of the layer below is on its way, and their reduction starts at once. Those of divided
//! parameters come all together, while the first halo below the tail is on its way. An input gradient that nobody reads but
//! the first layer comes slab by slab, and its parameter gradients with it.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, Pending, finish, post};
use crate::stage::Stage;
use crate::trainer::Trainer;
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::sync::Arc;
use std::time::Instant;

/// Parameter gradients that wait for the next halo to be posted.
struct Deferred<T> {
    layer: usize,
    /// Empty where the input gradient took its place or it came in slabs: the parameter gradients came with it.
    dy: Block<T>,
}

impl<T: Float> Trainer<'_, T> {
    /// Propagates the gradient of the prediction and starts the reduction of every parameter gradient.
    pub(crate) fn backward(&mut self, dpred: Block<T>) -> Result<(), TrainError> {
        let (start, updates) = (Instant::now(), self.clock.phases.optimizer);
        let mut dy = dpred;
        let mut deferred: Option<Deferred<T>> = None;
        let stages = Arc::clone(&self.stages);
        let shares_after = self.plan.shares_after();
        for (i, stage) in stages.iter().enumerate().rev() {
            let pending = match &stage.grad_halo {
                Some(halo) => {
                    stage.dy_border.iter().for_each(|side| dy.fill(side, T::ZERO));
                    Some(post(self.comm, halo, &dy, &mut self.clock.phases)?)
                }
                None => None,
            };
            self.finish_deferred(deferred.take())?;
            if shares_after == Some(i) {
                self.finish_shares()?;
            }
            let dx = self.input_gradient_of(i, stage, &mut dy, pending)?;
            let own_dy = std::mem::replace(&mut dy, dx);
            // A divided layer keeps what it needs.
            if self.layers[i].params().is_empty() || stage.divides && stage.needs_dx {
                self.pool.give(own_dy);
            } else {
                deferred = Some(Deferred { layer: i, dy: own_dy });
            }
            // Nobody below needs this layer's output any more.
            let output = std::mem::take(&mut self.tensors[i + 1]);
            self.pool.give(output);
            if let Some(output) = self.moved_away[i + 1].take() {
                self.pool.give(output);
            }
            if self.comm.size() > 1 {
                self.look()?;
            }
        }
        self.finish_deferred(deferred.take())?;
        if shares_after.is_none() {
            self.finish_shares()?;
        }
        // Of a lone layer; a network's is empty.
        self.input_gradient = dy;
        lap(start, &mut self.clock.phases.backward);
        self.clock.phases.backward -= self.clock.phases.optimizer - updates;
        Ok(())
    }

    /// Gradient of layer `i`'s input; empty where nobody reads one, or it came in slabs.
    fn input_gradient_of(
        &mut self,
        i: usize,
        stage: &Stage,
        dy: &mut Block<T>,
        pending: Option<Pending>,
    ) -> Result<Block<T>, TrainError> {
        if !stage.slabs.is_empty() {
            self.slab_gradients(i, stage, dy, pending)?;
            return Ok(Block::default());
        }
        let start = Instant::now();
        let dx = if !stage.needs_dx || stage.below_slabs {
            Block::default()
        } else if stage.gradient_in_place {
            if !stage.fused_backward {
                self.run_backward_in_place(i, dy, &stage.own_y)?;
            }
            std::mem::take(dy)
        } else {
            self.data_gradient(i, stage, dy, pending)?
        };
        lap(start, &mut self.clock.layers[i].backward_data);
        Ok(dx)
    }

    /// Gradient of layer `i`'s input, in the distribution and with the margins that the layer below wants.
    fn data_gradient(
        &mut self,
        i: usize,
        stage: &Stage,
        dy: &mut Block<T>,
        pending: Option<Pending>,
    ) -> Result<Block<T>, TrainError> {
        // Scattering layers write all of it, gathering ones all that is owned.
        let mut dx = self.pool.stale(stage.dx_block);
        self.sweep(&stage.inputs, dy, pending, |trainer, dy, part| trainer.run_backward(i, dy, &mut dx, part))?;
        if let Some(scatter) = &stage.scatter {
            let pending = post(self.comm, scatter, &dx, &mut self.clock.phases)?;
            finish(self.comm, pending, &mut dx, Arrival::Add, &mut self.outbox, &mut self.clock.phases)?;
        }
        let Some((route, wanted)) = &stage.grad_redistribute else { return Ok(dx) };
        let pending = post(self.comm, route, &dx, &mut self.clock.phases)?;
        let mut below = self.pool.stale(*wanted);
        below.copy_from(&dx, &route.local);
        finish(self.comm, pending, &mut below, Arrival::Overwrite, &mut self.outbox, &mut self.clock.phases)?;
        self.pool.give(dx);
        Ok(below)
    }

    pub(crate) fn run_backward(
        &mut self,
        i: usize,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, clock, tensors, moved_away, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, true);
        let y = moved_away[i + 1].as_ref().unwrap_or(&tensors[i + 1]);
        layers[i].backward_data(&env, &tensors[i], y, dy, dx, part)?;
        clock.phases.add_halo(env.communication_s.get());
        Ok(())
    }

    pub(crate) fn run_backward_in_place(
        &mut self,
        i: usize,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, clock, tensors, moved_away, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, true);
        let y = moved_away[i + 1].as_ref().unwrap_or(&tensors[i + 1]);
        layers[i].backward_in_place(&env, &tensors[i], y, dx, part)?;
        clock.phases.add_halo(env.communication_s.get());
        Ok(())
    }

    /// Parameter gradients of the deferred layer, and the start of their reduction over all ranks.
    fn finish_deferred(&mut self, deferred: Option<Deferred<T>>) -> Result<(), TrainError> {
        let Some(Deferred { layer: i, dy }) = deferred else { return Ok(()) };
        self.parameter_gradients(i, &dy)?;
        self.pool.give(dy);
        self.reduce(i)
    }

    /// Gradients of divided parameters, and their updates.
    fn finish_shares(&mut self) -> Result<(), TrainError> {
        let stages = Arc::clone(&self.stages);
        let divided = stages.iter().enumerate().rev().filter(|(_, stage)| stage.divides && stage.needs_dx);
        for (i, _) in divided {
            self.parameter_gradients(i, &Block::default())?;
            self.reduce(i)?;
        }
        Ok(())
    }

    fn parameter_gradients(&mut self, i: usize, dy: &Block<T>) -> Result<(), TrainError> {
        let start = Instant::now();
        if !self.stages[i].below_slabs {
            let own = self.stages[i].own_y;
            self.run_backward_params(i, dy, &own)?;
        }
        lap(start, &mut self.clock.layers[i].backward_params);
        Ok(())
    }

    pub(crate) fn run_backward_params(&mut self, i: usize, dy: &Block<T>, part: &Region) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, clock, tensors, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, true);
        layers[i].backward_params(&env, &tensors[i], dy, part)?;
        clock.phases.add_halo(env.communication_s.get());
        Ok(())
    }
}
