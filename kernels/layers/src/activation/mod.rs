//! Activations: leaky ReLU and the scaled hyperbolic tangent.
//!
//! Leaky ReLU: `y = x > 0 ? x : slope * x`. Scaled tanh: `y = scale * tanh(x)`; its derivative is taken from the
//! output, `scale - y^2 / scale`. Both are pointwise: a rank needs nothing of another. Both work in place, since the
//! output tells the derivative: that of a leaky ReLU with a slope that is not negative has the input's sign.

mod local;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::store::{Cached, Stores, Streaming};
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

    /// The tensor that has the input's sign: the output if the slope allows, since the input may be overwritten.
    fn sign<'a, T>(&self, x: &'a Block<T>, y: &'a Block<T>) -> &'a Block<T> {
        if self.spec.slope >= 0.0 { y } else { x }
    }
}

impl<T: Float> Layer<T> for LeakyReluLayer {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        let leaky_relu = match Stores::of::<T>(y.region()) {
            Stores::Cached => local::leaky_relu::<T, Cached>,
            Stores::Streaming => local::leaky_relu::<T, Streaming>,
        };
        lines::map(env.team, x, y, part, |_, x, y| leaky_relu(slope, x, y));
        Ok(())
    }

    fn backward_data(
        &mut self,
        env: &Env,
        x: &Block<T>,
        y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        let (sign, layout, len) = (self.sign(x, y), dy.layout(), lines::line_len(part));
        let gradient = match Stores::of::<T>(dx.region()) {
            Stores::Cached => local::leaky_relu_gradient::<T, Cached>,
            Stores::Streaming => local::leaky_relu_gradient::<T, Streaming>,
        };
        lines::map(env.team, sign, dx, part, |at, sign, dx| {
            gradient(slope, sign, lines::line(dy.data(), &layout, at, len), dx);
        });
        Ok(())
    }

    fn forward_in_place(&mut self, env: &Env, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        lines::update(env.team, y, part, |_, y| local::leaky_relu_in_place(slope, y));
        Ok(())
    }

    fn backward_in_place(
        &mut self,
        env: &Env,
        x: &Block<T>,
        y: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let slope = T::from_f64(self.spec.slope);
        let sign = self.sign(x, y);
        lines::map(env.team, sign, dx, part, |_, sign, dx| local::leaky_relu_gradient_in_place(slope, sign, dx));
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
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        lines::map(env.team, x, y, part, |_, x, y| {
            y.copy_from_slice(x);
            local::tanh(scale, y);
        });
        Ok(())
    }

    fn backward_data(
        &mut self,
        env: &Env,
        _x: &Block<T>,
        y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        let (layout, len) = (dy.layout(), lines::line_len(part));
        lines::map(env.team, y, dx, part, |at, y, dx| {
            dx.copy_from_slice(lines::line(dy.data(), &layout, at, len));
            local::tanh_gradient(scale, y, dx);
        });
        Ok(())
    }

    fn forward_in_place(&mut self, env: &Env, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        lines::update(env.team, y, part, |_, y| local::tanh(scale, y));
        Ok(())
    }

    fn backward_in_place(
        &mut self,
        env: &Env,
        _x: &Block<T>,
        y: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let scale = T::from_f64(self.spec.scale);
        lines::map(env.team, y, dx, part, |_, y, dx| local::tanh_gradient(scale, y, dx));
        Ok(())
    }
}
