//! The convolution that a rank runs.

use super::local::{BiasScratch, backward_bias};
use super::{Conv, Isa, Local};
use crate::{Env, Float, Layer, LayerError, Param};
use shardmark_partition::{Region, Shape};
use shardmark_tensor::Block;

/// Convolution with its parameters. Weights and their gradient are kept as `[KD, KH, KW, C, K]`.
pub struct ConvLayer<T: Float> {
    local: Local<T>,
    bias: BiasScratch<T>,
    params: Vec<Param<T>>,
}

impl<T: Float> ConvLayer<T> {
    /// All parameters zero, for outputs of the shape `y`; the instruction set is [`Isa::selected`].
    pub fn new(spec: Conv, y: Shape) -> Self {
        Self::with_isa(spec, y, Isa::selected())
    }

    /// The same for an available instruction set.
    pub fn with_isa(spec: Conv, y: Shape, isa: Isa) -> Self {
        let params = spec.params().iter().map(|p| Param::zeros(p.len())).collect();
        let local = Local::new(spec, y, isa);
        ConvLayer { local, bias: BiasScratch::default(), params }
    }
}

impl<T: Float> Layer<T> for ConvLayer<T> {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let bias = self.params.get(1).map_or(&[][..], |b| &b.value);
        self.local.forward(env.team, &self.params[0].value, bias, x, y, part);
        Ok(())
    }

    fn backward_data(
        &mut self,
        env: &Env,
        _x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        self.local.backward_data(env.team, &self.params[0].value, dy, dx, part);
        Ok(())
    }

    fn fuse_activation(&mut self, slope: T) -> bool {
        let fits = slope >= T::ZERO && slope <= T::ONE;
        if fits {
            self.local.set_slope(slope);
        }
        fits
    }

    fn backward_params(&mut self, env: &Env, x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        self.local.backward_weight(env.team, x, dy, part, &mut self.params[0].grad);
        if let Some(bias) = self.params.get_mut(1) {
            backward_bias(env.team, dy, part, &mut bias.grad, &mut self.bias);
        }
        Ok(())
    }

    fn params(&self) -> &[Param<T>] {
        &self.params
    }

    fn params_mut(&mut self) -> &mut [Param<T>] {
        self.local.forget_weights();
        &mut self.params
    }
}
