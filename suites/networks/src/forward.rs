//! The forward pass of a rank: post halos, compute what needs none, and the rest when they are there.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, finish, post};
use crate::stage::{Route, Stage};
use crate::trainer::Trainer;
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::sync::Arc;
use std::time::Instant;

impl<T: Float> Trainer<'_, T> {
    /// Runs the network on this rank's input block (halo included) and leaves the input of every layer, and the
    /// prediction as the last, in `self.tensors`; a tensor whose place another took is empty.
    pub(crate) fn forward(&mut self, input: Block<T>, training: bool) -> Result<(), TrainError> {
        let start = Instant::now();
        self.training = training;
        self.release_tensors();
        self.tensors.push(input);
        let stages = Arc::clone(&self.stages);
        for (i, stage) in stages.iter().enumerate() {
            let layer_start = Instant::now();
            if let Some((route, x_block)) = &stage.redistribute {
                self.redistribute(i, route, *x_block)?;
            }
            // The input is taken out while the layer runs: halos are written into it between two kernels.
            let mut x = std::mem::take(&mut self.tensors[i]);
            let y = if stage.in_place {
                if !stage.fused_forward {
                    self.run_in_place(i, &mut x, &stage.own_y)?;
                }
                std::mem::take(&mut x)
            } else {
                self.layer_forward(i, stage, &mut x)?
            };
            self.tensors[i] = x;
            self.tensors.push(y);
            lap(layer_start, &mut self.clock.layers[i].forward);
        }
        lap(start, &mut self.clock.phases.forward);
        Ok(())
    }

    /// Brings the newest tensor into the distribution of layer `i`; its producer's version is kept for the backward
    /// pass.
    fn redistribute(&mut self, i: usize, route: &Route, x_block: Region) -> Result<(), TrainError> {
        let source = std::mem::take(&mut self.tensors[i]);
        let pending = post(self.comm, route, &source, &mut self.clock.phases)?;
        let mut moved = self.pool.stale(x_block);
        moved.copy_from(&source, &route.local);
        finish(self.comm, pending, &mut moved, Arrival::Overwrite, &mut self.outbox, &mut self.clock.phases)?;
        self.moved_away[i] = Some(source);
        self.tensors[i] = moved;
        Ok(())
    }

    fn layer_forward(&mut self, i: usize, stage: &Stage, x: &mut Block<T>) -> Result<Block<T>, TrainError> {
        let border = self.plan.graph.nodes[i].op.border();
        stage.x_border.iter().for_each(|side| x.fill(side, border));
        // Its owner writes all of it; halo and border are written before they are read.
        let mut y = self.pool.stale(stage.y_block);
        let pending = match &stage.halo {
            Some(halo) => Some(post(self.comm, halo, x, &mut self.clock.phases)?),
            None => None,
        };
        self.sweep(&stage.outputs, x, pending, |trainer, x, part| trainer.run_forward(i, x, &mut y, part))?;
        Ok(y)
    }

    fn run_forward(&mut self, i: usize, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, training, clock, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, *training);
        layers[i].forward(&env, x, y, part)?;
        clock.phases.add_halo(env.communication_s.get());
        Ok(())
    }

    fn run_in_place(&mut self, i: usize, y: &mut Block<T>, part: &Region) -> Result<(), TrainError> {
        let Self { layers, groups, team, seed, step, training, clock, .. } = self;
        let env = Self::env(groups, team, *seed, *step, i, *training);
        layers[i].forward_in_place(&env, y, part)?;
        clock.phases.add_halo(env.communication_s.get());
        Ok(())
    }
}
