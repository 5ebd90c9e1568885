//! The step of a layer taken out of its network: forward and backward, between tensors that are given.

#[cfg(test)]
mod tests;

use crate::clock::lap;
use crate::error::TrainError;
use crate::trainer::Trainer;
use crate::update::Goal;
use shardmark_layers::Float;
use shardmark_partition::Region;
use shardmark_tensor::Block;
use std::time::Instant;

impl<T: Float> Trainer<'_, T> {
    /// A block for the gradient of the output, margins included; its values are stale. Its owner fills
    /// [`Trainer::target_region`].
    pub fn gradient_block(&mut self) -> Block<T> {
        let last = self.plan.graph.nodes.len() - 1;
        let region = self.plan.gradient_block(last, &self.at);
        self.pool.stale(region)
    }

    /// Both passes of a layer, see [`Trainer::lone_forward`] and [`Trainer::lone_backward`]: the timed step.
    ///
    /// # Errors
    /// When communication fails.
    pub fn lone_step(&mut self, input: Block<T>, dy: Block<T>) -> Result<(), TrainError> {
        let start = Instant::now();
        self.lone_forward(input)?;
        self.lone_backward(dy)?;
        lap(start, &mut self.clock.phases.step);
        Ok(())
    }

    /// Exchanges the input's halo and computes outputs. `input` covers [`Trainer::input_region`]; what the rank owns has to
    /// be there.
    ///
    /// # Errors
    /// When communication fails.
    pub fn lone_forward(&mut self, input: Block<T>) -> Result<(), TrainError> {
        self.forward(input, true)
    }

    /// Exchanges the halo of `dy`, the gradient of the output, and computes the gradients of the input, where the layer
    /// has one, and of the parameters, which are summed over all ranks. Parameters stay as they are but count as changed:
    /// the next step packs weights anew, as in training.
    ///
    /// # Errors
    /// When communication fails.
    pub fn lone_backward(&mut self, dy: Block<T>) -> Result<(), TrainError> {
        self.goal = Goal::Gradients;
        self.backward(dy)?;
        self.land_all()?;
        for layer in &mut self.layers {
            let _ = layer.params_mut();
        }
        Ok(())
    }

    /// The output of the last [`Trainer::lone_forward`], over [`Trainer::target_region`] and beyond it.
    pub fn lone_output(&self) -> Option<&Block<T>> {
        self.tensors.last()
    }

    /// The gradient of the input that the last [`Trainer::lone_backward`] left, over [`Trainer::owned_input`] and beyond it;
    /// without an element where the layer has none.
    pub fn lone_input_gradient(&self) -> &Block<T> {
        &self.input_gradient
    }

    /// Region of the input that the rank owns.
    pub fn owned_input(&self) -> Region {
        self.plan.layer(0).own_x(&self.plan.grid, &self.at)
    }
}
