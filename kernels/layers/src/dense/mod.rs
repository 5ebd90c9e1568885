//! Fully connected layer, and the flattening before it. Both work on whole samples: they never see a spatial split.
//!
//! Dense: `y[n, k] = sum_c x[n, c] * weight[k, c] + bias[k]`, `dx[n, c] = sum_k dy[n, k] * weight[k, c]`,
//! `dweight[k, c] = sum_n dy[n, k] * x[n, c]`, `dbias[k] = sum_n dy[n, k]`. A rank has few samples (1 to 8), so time is
//! the reading of the weight: each kernel goes over it once. Many rows (tokens) are a matrix product, by the tiles of the
//! convolution.

mod flatten;
mod local;
mod product;
pub mod reference;
#[cfg(test)]
mod tests;

pub use flatten::{Flatten, FlattenLayer};
pub(crate) use local::column_sums;
pub(crate) use product::Product;

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

/// [`Dense`] on a rank; parameters in PyTorch's layout.
pub struct DenseLayer<T: Float> {
    params: Vec<Param<T>>,
    product: Product<T>,
}

impl<T: Float> DenseLayer<T> {
    /// The layer of a spec, all parameters zero; the instruction set is [`Isa::selected`](crate::conv::Isa::selected).
    pub fn new(spec: Dense) -> Self {
        let params = spec.params().iter().map(|p| Param::zeros(p.len())).collect();
        let product = Product::new(spec.c, spec.k);
        DenseLayer { params, product }
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
        self.product.forward(env.team, &self.params[0].value, bias, x, y);
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
        self.product.backward_data(env.team, &self.params[0].value, dy, dx);
        Ok(())
    }

    fn backward_params(&mut self, env: &Env, x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        let (x, dy) = (&x.data()[rows(x, part)], &dy.data()[rows(dy, part)]);
        self.product.backward_weight(env.team, x, dy, &mut self.params[0].grad);
        if let Some(bias) = self.params.get_mut(1) {
            column_sums(dy, bias.grad.len(), 0, &mut bias.grad);
        }
        Ok(())
    }

    fn params(&self) -> &[Param<T>] {
        &self.params
    }

    fn params_mut(&mut self) -> &mut [Param<T>] {
        self.product.forget_weights();
        &mut self.params
    }
}
