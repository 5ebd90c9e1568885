//! The forward pass of a rank: post halos, compute the interior, wait, compute the sides.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, finish, post};
use crate::plan::LayerPlan;
use crate::trainer::Trainer;
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::time::Instant;

impl<T: Float> Trainer<'_, T> {
    /// Runs the network on this rank's input block (halo included) and leaves the input of every layer, and the
    /// prediction as the last, in `self.tensors`.
    pub(crate) fn forward(&mut self, input: Block<T>, training: bool) -> Result<(), TrainError> {
        let start = Instant::now();
        self.training = training;
        self.release_tensors();
        self.tensors.push(input);
        for i in 0..self.plan.graph.nodes.len() {
            let layer_start = Instant::now();
            let lp = self.plan.layer(i);
            if lp.redistribute.is_some() {
                self.redistribute(i, &lp)?;
            }
            // The input is taken out while the layer runs: halos are written into it between two kernels.
            let mut x = std::mem::take(&mut self.tensors[i]);
            let y = self.layer_forward(i, &lp, &mut x);
            self.tensors[i] = x;
            self.tensors.push(y?);
            lap(layer_start, &mut self.clock.layers[i].forward);
        }
        lap(start, &mut self.clock.phases.forward);
        Ok(())
    }

    /// Brings the newest tensor into the distribution of layer `i`; its producer's version is kept for the backward
    /// pass.
    fn redistribute(&mut self, i: usize, lp: &LayerPlan) -> Result<(), TrainError> {
        let Some(transfer) = &lp.redistribute else { return Ok(()) };
        let (grid, at) = (&self.plan.grid, &self.at);
        let source = std::mem::take(&mut self.tensors[i]);
        let pending = post(self.comm, transfer, grid, at, &source, &mut self.clock.phases)?;
        let mut moved = self.pool.stale(lp.x_block(grid, at));
        moved.copy_from(&source, &transfer.local(grid, at));
        finish(self.comm, pending, &mut moved, Arrival::Overwrite, &mut self.clock.phases)?;
        self.moved_away.insert(i, source);
        self.tensors[i] = moved;
        Ok(())
    }

    fn layer_forward(&mut self, i: usize, lp: &LayerPlan, x: &mut Block<T>) -> Result<Block<T>, TrainError> {
        let (grid, at) = (self.plan.grid, self.at);
        x.fill_outside(&Region::full(lp.x), self.plan.graph.nodes[i].op.border());
        // Its owner writes all of it; halo and border are written before they are read.
        let mut y = self.pool.stale(self.plan.y_block(i, &at));
        let own = lp.own_y(&grid, &at);
        if self.plan.input_brings_halo(i) {
            self.run_forward(i, x, &mut y, &own)?;
            return Ok(y);
        }
        let pending = post(self.comm, &lp.halo, &grid, &at, x, &mut self.clock.phases)?;
        if !pending.receives() {
            // Also with nothing to compute: a layer may hold collectives.
            self.run_forward(i, x, &mut y, &own)?;
            finish(self.comm, pending, x, Arrival::Overwrite, &mut self.clock.phases)?;
            return Ok(y);
        }
        let interior = lp.interior_y(&grid, &at);
        if !interior.is_empty() {
            self.run_forward(i, x, &mut y, &interior)?;
        }
        finish(self.comm, pending, x, Arrival::Overwrite, &mut self.clock.phases)?;
        for side in own.minus(&interior) {
            self.run_forward(i, x, &mut y, &side)?;
        }
        Ok(y)
    }

    fn run_forward(&mut self, i: usize, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, training, clock, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, *training);
        layers[i].forward(&env, x, y, part)?;
        clock.phases.halo_exposed += env.communication_s.get();
        clock.phases.halo_total += env.communication_s.get();
        Ok(())
    }
}
