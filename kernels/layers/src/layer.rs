//! The interface between a layer and the executor that runs it on a rank.

use crate::Float;
use shardmark_comm::{Comm, CommError};
use shardmark_host::Team;
use shardmark_partition::{AxisSet, Region};
use shardmark_tensor::Block;
use std::cell::Cell;

/// Why a layer could not run.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// Finds the communicator of the ranks that differ along some axes only.
pub trait Groups {
    /// The group of this rank along `axes`; `None` when the group is this rank alone.
    fn group(&self, axes: AxisSet) -> Option<&dyn Comm>;
}

/// What a layer may know of the run.
pub struct Env<'a> {
    /// Communicators of groups of ranks.
    pub groups: &'a dyn Groups,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the training step: dropout masks change with it.
    pub step: u64,
    /// Number of the layer in its network: the stream of its random numbers.
    pub layer: u64,
    /// Training (dropout, batch statistics) or evaluation (running statistics).
    pub training: bool,
    /// Threads that share this rank's work; results do not depend on their number.
    pub team: &'a Team,
    /// Seconds that the layer spent in its own collectives, to be reported apart from computing.
    pub communication_s: Cell<f64>,
}

impl Env<'_> {
    /// Runs a communication and adds its time to [`Env::communication_s`].
    ///
    /// # Errors
    /// Those of the communication.
    pub fn communicate<R>(&self, call: impl FnOnce() -> Result<R, CommError>) -> Result<R, LayerError> {
        let start = std::time::Instant::now();
        let result = call();
        self.communication_s.set(self.communication_s.get() + start.elapsed().as_secs_f64());
        Ok(result?)
    }
}

/// A parameter with its gradient, in the layer's layout ([`Op::layer_layout`](crate::Op::layer_layout)).
#[derive(Clone, Debug, Default)]
pub struct Param<T> {
    /// Values.
    pub value: Vec<T>,
    /// Gradient of the loss; a rank's own part until it is reduced.
    pub grad: Vec<T>,
}

impl<T: Float> Param<T> {
    /// All zeros.
    pub fn zeros(len: usize) -> Self {
        Param { value: vec![T::ZERO; len], grad: vec![T::ZERO; len] }
    }
}

/// A layer on a rank. All regions are global; blocks carry margins, filled before the call.
pub trait Layer<T: Float>: Send {
    /// Computes the outputs `part`. Layers with windows are called for the interior and then for each side; pointwise
    /// layers once for all the rank owns, also when that is nothing (they may hold collectives).
    ///
    /// # Errors
    /// When communication inside the layer fails.
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError>;

    /// Computes the input gradients `part` (layers whose gradient gathers), or overwrites all of `dx`, margins included,
    /// with the contributions of the owned outputs `part` (layers whose gradient scatters; called once).
    ///
    /// # Errors
    /// When communication inside the layer fails.
    fn backward_data(
        &mut self,
        env: &Env,
        x: &Block<T>,
        y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError>;

    /// Computes the outputs `part` over the inputs, which `y` holds: the executor's choice for an
    /// [`Op::in_place`](crate::Op::in_place).
    ///
    /// # Errors
    /// When communication inside the layer fails.
    fn forward_in_place(&mut self, env: &Env, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let x = y.clone();
        self.forward(env, &x, y, part)
    }

    /// Computes the input gradients `part` over the output gradients, which `dx` holds: the executor's choice for an
    /// [`Op::gradient_in_place`](crate::Op::gradient_in_place). After a forward pass in place `x` is empty.
    ///
    /// # Errors
    /// When communication inside the layer fails.
    fn backward_in_place(
        &mut self,
        env: &Env,
        x: &Block<T>,
        y: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let dy = dx.clone();
        self.backward_data(env, x, y, &dy, dx, part)
    }

    /// Asks the layer to apply a leaky ReLU (slope at least zero) to all outputs that it writes from now on; whether it does.
    fn fuse_activation(&mut self, _slope: T) -> bool {
        false
    }

    /// Asks the layer to take, from now on, the gradients of a leaky ReLU's outputs for those of its own: the activation
    /// that [`Layer::fuse_activation`] made its own; whether it does.
    fn fuse_output_derivative(&mut self, _slope: T) -> bool {
        false
    }

    /// Asks the layer, whose inputs are the outputs of a leaky ReLU, to give the gradients of that one's inputs from now on;
    /// whether it does.
    fn fuse_input_derivative(&mut self, _slope: T) -> bool {
        false
    }

    /// Overwrites the parameter gradients with the contributions of the owned outputs `part` (zero when empty).
    ///
    /// # Errors
    /// When communication inside the layer fails.
    fn backward_params(&mut self, _env: &Env, _x: &Block<T>, _dy: &Block<T>, _part: &Region) -> Result<(), LayerError> {
        Ok(())
    }

    /// Parameters in the order of the spec.
    fn params(&self) -> &[Param<T>] {
        &[]
    }

    /// Parameters in the order of the spec, to be changed; what the layer derived from them is refreshed on next use.
    fn params_mut(&mut self) -> &mut [Param<T>] {
        &mut []
    }

    /// State that is not trained but belongs to the model (running statistics), by PyTorch's buffer names.
    fn buffers(&self) -> Vec<(&'static str, &[T])> {
        Vec::new()
    }

    /// The same, to be changed.
    fn buffers_mut(&mut self) -> Vec<(&'static str, &mut Vec<T>)> {
        Vec::new()
    }
}
