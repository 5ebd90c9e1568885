//! Fully connected layer, and the flattening before it. Both work on whole samples: they never see a spatial split.
//!
//! Dense: `y[n, k] = sum_c x[n, c] * weight[k, c] + bias[k]`, `dx[n, c] = sum_k dy[n, k] * weight[k, c]`,
//! `dweight[k, c] = sum_n dy[n, k] * x[n, c]`, `dbias[k] = sum_n dy[n, k]`. A rank has few samples (1 to 8), so time is
//! the reading of the weight: each kernel goes over it once.

mod flatten;
mod local;
pub mod reference;
#[cfg(test)]
mod tests;

pub use flatten::{Flatten, FlattenLayer};

use crate::{Env, Float, Init, Layer, LayerError, Param, ParamSpec};
use shardmark_partition::{Dim, Region};
use shardmark_tensor::Block;

/// Fully connected layer from `c` to `k` features.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Features in.
    pub c: usize,
    /// Features out.
    pub k: usize,
    /// Whether there is a bias.
    pub bias: bool,
    /// Start value of the bias.
    pub bias_init: f64,
}

impl Dense {
    /// `weight` `[K, C]` and, if there is one, `bias` `[K]`.
    pub fn params(&self) -> Vec<ParamSpec> {
        let init = Init::GlorotUniform { fan_in: self.c, fan_out: self.k };
        let mut params = vec![ParamSpec { name: "weight", shape: vec![self.k, self.c], init }];
        if self.bias {
            params.push(ParamSpec { name: "bias", shape: vec![self.k], init: Init::Constant(self.bias_init) });
        }
        params
    }
}

/// [`Dense`] on a rank; parameters in PyTorch's layout.
#[derive(Clone, Debug)]
pub struct DenseLayer<T> {
    spec: Dense,
    params: Vec<Param<T>>,
}

impl<T: Float> DenseLayer<T> {
    /// The layer of a spec, all parameters zero.
    pub fn new(spec: Dense) -> Self {
        let params = spec.params().iter().map(|p| Param::zeros(p.len())).collect();
        DenseLayer { spec, params }
    }

    /// The features of the samples of `part` as rows.
    fn rows(&self, block: &Block<T>, part: &Region) -> Vec<T> {
        block.pack(&part.with(Dim::C, block.region().span(Dim::C)))
    }
}

impl<T: Float> Layer<T> for DenseLayer<T> {
    fn forward(&mut self, _env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let mut rows = vec![T::ZERO; part.len()];
        let bias = self.params.get(1).map_or(&[][..], |bias| &bias.value);
        local::forward(&self.params[0].value, bias, self.spec.c, &self.rows(x, part), &mut rows);
        y.unpack(part, &rows);
        Ok(())
    }

    fn backward_data(
        &mut self,
        _env: &Env,
        _x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let mut rows = vec![T::ZERO; part.len()];
        local::backward_data(&self.params[0].value, self.spec.c, &self.rows(dy, part), &mut rows);
        dx.unpack(part, &rows);
        Ok(())
    }

    fn backward_params(&mut self, _env: &Env, x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        let (x, dy) = (self.rows(x, part), self.rows(dy, part));
        local::weight_gradient(self.spec.c, self.spec.k, &x, &dy, &mut self.params[0].grad);
        if let Some(bias) = self.params.get_mut(1) {
            local::bias_gradient(&dy, &mut bias.grad);
        }
        Ok(())
    }

    fn params(&self) -> &[Param<T>] {
        &self.params
    }

    fn params_mut(&mut self) -> &mut [Param<T>] {
        &mut self.params
    }
}
