//! The end of the backward pass where nobody reads the last input gradient but the first layer, for its parameter gradients:
//! the gradient, the largest of a network whose tensors shrink, is made and used up slab by slab, in the caches.

use crate::clock::lap;
use crate::error::TrainError;
use crate::exchange::{Arrival, Pending, finish};
use crate::stage::Stage;
use crate::trainer::Trainer;
use shardmark_layers::{Float, Param};
use shardmark_tensor::Block;
use std::sync::Arc;
use std::time::Instant;

/// Sums of the parameter gradients of slabs, in the order of the slabs.
#[derive(Default)]
pub(crate) struct Sums<T>(Vec<Vec<T>>);

impl<T: Float> Sums<T> {
    /// Zeros for each parameter.
    fn begin(&mut self, params: &[Param<T>]) {
        self.0.resize(params.len(), Vec::new());
        for (sum, param) in self.0.iter_mut().zip(params) {
            sum.clear();
            sum.resize(param.grad.len(), T::ZERO);
        }
    }

    /// Adds the gradients of one slab.
    fn add(&mut self, params: &[Param<T>]) {
        for (sum, param) in self.0.iter_mut().zip(params) {
            sum.iter_mut().zip(&param.grad).for_each(|(sum, &grad)| *sum += grad);
        }
    }

    /// Overwrites the gradients with the sums.
    fn put(&self, params: &mut [Param<T>]) {
        self.0.iter().zip(params).for_each(|(sum, param)| param.grad.copy_from_slice(sum));
    }
}

impl<T: Float> Trainer<'_, T> {
    /// Gradient of layer `i`'s input, slab by slab, and of each what it adds to the parameter gradients of the first layer.
    pub(crate) fn slab_gradients(
        &mut self,
        i: usize,
        stage: &Stage,
        dy: &mut Block<T>,
        pending: Option<Pending>,
    ) -> Result<(), TrainError> {
        // Waited for first, so that the order of the slabs, and with it their sums, does not depend on when it arrives. It
        // left before the parameter gradients of the layers above were computed.
        if let Some(pending) = pending {
            let start = Instant::now();
            finish(self.comm, pending, dy, Arrival::Overwrite, &mut self.outbox, &mut self.clock.phases)?;
            lap(start, &mut self.clock.layers[i].backward_data);
        }
        let stages = Arc::clone(&self.stages);
        self.slab_sums.begin(self.layers[0].params());
        for slab in &stage.slabs {
            let mut start = Instant::now();
            let mut dx = self.pool.stale(*slab);
            self.run_backward(i, dy, &mut dx, slab)?;
            for below in (1..i).rev().filter(|&below| !stages[below].fused_backward) {
                self.run_backward_in_place(below, &mut dx, slab)?;
            }
            lap(start, &mut self.clock.layers[i].backward_data);
            start = Instant::now();
            self.run_backward_params(0, &dx, slab)?;
            self.slab_sums.add(self.layers[0].params());
            lap(start, &mut self.clock.layers[0].backward_params);
            self.pool.give(dx);
            if self.comm.size() > 1 {
                self.look()?;
            }
        }
        self.slab_sums.put(self.layers[0].params_mut());
        Ok(())
    }
}
