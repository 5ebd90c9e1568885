//! Fully connected layer, and the flattening before it. Both work on whole samples: they never see a spatial split.
//!
//! Dense: `y[n, k] = sum_c x[n, c] * weight[k, c] + bias[k]`, `dx[n, c] = sum_k dy[n, k] * weight[k, c]`,
//! `dweight[k, c] = sum_n dy[n, k] * x[n, c]`, `dbias[k] = sum_n dy[n, k]`. A rank has few samples (1 to 8), so time is
//! the reading of the weight: each kernel goes over it once. Many rows (tokens) are a matrix product, by the tiles of the
//! convolution.

mod flatten;
mod local;
pub mod reference;
#[cfg(test)]
mod tests;

pub use flatten::{Flatten, FlattenLayer};
pub(crate) use local::{bias_gradient, weight_gradient};

use crate::conv::{Isa, Matrix};
use crate::{Env, Float, Init, Layer, LayerError, Param, ParamSpec};
use shardmark_partition::Region;
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
        let init = Init::Uniform { fan_in: self.c, fan_out: self.k };
        let mut params = vec![ParamSpec { name: "weight", shape: vec![self.k, self.c], init }];
        if self.bias {
            params.push(ParamSpec { name: "bias", shape: vec![self.k], init: Init::Constant(self.bias_init) });
        }
        params
    }
}

/// Rows from which on the weight is packed and the tiles of the convolution do the work.
pub(crate) const MANY_ROWS: usize = 16;

/// [`Dense`] on a rank; parameters in PyTorch's layout.
pub struct DenseLayer<T: Float> {
    spec: Dense,
    params: Vec<Param<T>>,
    matrix: Matrix<T>,
}

impl<T: Float> DenseLayer<T> {
    /// The layer of a spec, all parameters zero; the instruction set is [`Isa::selected`].
    pub fn new(spec: Dense) -> Self {
        let params = spec.params().iter().map(|p| Param::zeros(p.len())).collect();
        let matrix = Matrix::new(spec.c, spec.k, Isa::selected());
        DenseLayer { spec, params, matrix }
    }
}

/// The samples of `part` as rows: a block of features has no other dimension.
fn rows<T: Float>(block: &Block<T>, part: &Region) -> std::ops::Range<usize> {
    let [_, d, h, w, c] = block.shape();
    assert!(d * h * w == 1 || part.is_empty(), "dense layers work on features, not on {}", block.region());
    if part.is_empty() {
        return 0..0;
    }
    let first = block.offset([part.0[0].lo, part.0[1].lo, part.0[2].lo, part.0[3].lo]);
    first..first + part.0[0].len() * c
}

impl<T: Float> Layer<T> for DenseLayer<T> {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let (from, to) = (rows(x, part), rows(y, part));
        let (x, y) = (&x.data()[from], &mut y.data_mut()[to]);
        let bias = self.params.get(1).map_or(&[][..], |bias| &bias.value);
        if part.0[0].len() < MANY_ROWS {
            local::forward(env.team, &self.params[0].value, bias, self.spec.c, x, y);
            return Ok(());
        }
        self.matrix.forward(env.team, &self.params[0].value, bias, x, y);
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
        let (from, to) = (rows(dy, part), rows(dx, part));
        let (dy, dx) = (&dy.data()[from], &mut dx.data_mut()[to]);
        if part.0[0].len() < MANY_ROWS {
            local::backward_data(env.team, &self.params[0].value, self.spec.c, dy, dx);
            return Ok(());
        }
        self.matrix.backward_data(env.team, &self.params[0].value, dy, dx);
        Ok(())
    }

    fn backward_params(&mut self, env: &Env, x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        let (x, dy) = (&x.data()[rows(x, part)], &dy.data()[rows(dy, part)]);
        let dweight = &mut self.params[0].grad;
        if part.0[0].len() < MANY_ROWS {
            local::weight_gradient(env.team, self.spec.c, self.spec.k, x, dy, dweight);
        } else {
            self.matrix.backward_weight(env.team, x, dy, dweight);
        }
        if let Some(bias) = self.params.get_mut(1) {
            local::bias_gradient(dy, &mut bias.grad);
        }
        Ok(())
    }

    fn params(&self) -> &[Param<T>] {
        &self.params
    }

    fn params_mut(&mut self) -> &mut [Param<T>] {
        self.matrix.forget_weights();
        &mut self.params
    }
}
