//! Activations: leaky ReLU and the scaled hyperbolic tangent.
//!
//! Leaky ReLU: `y = x > 0 ? x : slope * x`. Scaled tanh: `y = scale * tanh(x)`; its derivative is taken from the
//! output, `scale - y^2 / scale`. Both are pointwise: a rank needs nothing of another.

mod local;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::{Env, Float, Layer, LayerError, lines};
use shardmark_partition::Region;
use shardmark_tensor::Block;

/// Leaky ReLU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeakyRelu {
    /// Factor of inputs that are not positive.
    pub slope: f64,
}

/// Scaled hyperbolic tangent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tanh {
    /// Factor of the output (1.2 in the MLPerf-HPC CosmoFlow).
    pub scale: f64,
}

/// [`LeakyRelu`] on a rank.
#[derive(Debug)]
pub struct LeakyReluLayer {
    spec: LeakyRelu,
}

impl LeakyReluLayer {
    /// The layer of a spec.
    pub fn new(spec: LeakyRelu) -> Self {
        LeakyReluLayer { spec }
    }
}

impl<T: Float> Layer<T> for LeakyReluLayer {
    fn forward(&mut self, _env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        lines::map(x, y, part, |x, y| local::leaky_relu(slope, x, y));
        Ok(())
    }

    fn backward_data(
        &mut self,
        _env: &Env,
        x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        lines::map2(x, dy, dx, part, |x, dy, dx| local::leaky_relu_gradient(slope, x, dy, dx));
        Ok(())
    }
}

/// [`Tanh`] on a rank.
#[derive(Debug)]
pub struct TanhLayer {
    spec: Tanh,
}

impl TanhLayer {
    /// The layer of a spec.
    pub fn new(spec: Tanh) -> Self {
        TanhLayer { spec }
    }
}

impl<T: Float> Layer<T> for TanhLayer {
    fn forward(&mut self, _env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        lines::map(x, y, part, |x, y| local::tanh(scale, x, y));
        Ok(())
    }

    fn backward_data(
        &mut self,
        _env: &Env,
        _x: &Block<T>,
        y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        lines::map2(y, dy, dx, part, |y, dy, dx| local::tanh_gradient(scale, y, dy, dx));
        Ok(())
    }
}
