//! Products with a matrix of weights `[K, C]` over many rows: a 1x1 convolution whose positions are the rows.

use super::dispatch::{Isa, Kernels};
use super::gather::{self, Job, Sweep};
use super::pack::{Blocks, Inputs, Packed};
use super::weights;
use shardmark_host::Team;
use shardmark_tensor::Real;

/// The packed weights of a dense layer, and the buffers of a rank.
pub(crate) struct Matrix<T: Real> {
    c: usize,
    k: usize,
    kernels: &'static Kernels<T>,
    forward: Packed<T>,
    backward: Packed<T>,
    gather: gather::Scratch,
    weights: weights::Scratch<T>,
}

impl<T: Real> Matrix<T> {
    /// Kernels of an available instruction set; weights are to be packed before use.
    pub fn new(c: usize, k: usize, isa: Isa) -> Self {
        Matrix {
            c,
            k,
            kernels: Kernels::of(isa),
            forward: Packed::default(),
            backward: Packed::default(),
            gather: gather::Scratch::default(),
            weights: weights::Scratch::default(),
        }
    }

    /// Packs the weights `[K, C]` (and bias `[K]`, or empty) for [`Matrix::forward`].
    pub fn pack_forward(&mut self, team: &Team, weight: &[T], bias: &[T]) {
        let blocks = Blocks { channels: self.k, lanes: self.kernels.lanes };
        self.forward.fill_columns(team, blocks, inputs(self.c), &[0], weight);
        self.forward.set_start(bias);
    }

    /// Packs the weights `[K, C]` for [`Matrix::backward_data`].
    pub fn pack_backward(&mut self, team: &Team, weight: &[T]) {
        let blocks = Blocks { channels: self.c, lanes: self.kernels.lanes };
        self.backward.fill_rows(team, blocks, inputs(self.k), weight);
    }

    /// `y = x weight^T + bias` over rows x `[R, C]`, y `[R, K]`.
    pub fn forward(&mut self, team: &Team, x: &[T], y: &mut [T]) {
        let sweep = rows(x.len() / self.c, self.c, self.k);
        let job = Job { kernels: self.kernels, sweep, x, rows: &[0], packed: &self.forward, slope: T::ONE };
        gather::gather(&job, y, team, &mut self.gather);
    }

    /// `dx = dy weight` over rows.
    pub fn backward_data(&mut self, team: &Team, dy: &[T], dx: &mut [T]) {
        let sweep = rows(dy.len() / self.k, self.k, self.c);
        let job = Job { kernels: self.kernels, sweep, x: dy, rows: &[0], packed: &self.backward, slope: T::ONE };
        gather::gather(&job, dx, team, &mut self.gather);
    }

    /// `dweight = dy^T x` over rows.
    pub fn backward_weight(&mut self, team: &Team, x: &[T], dy: &[T], dweight: &mut [T]) {
        // Output channels and inputs change places, since the gradient is `[K, C]` and not `[C, K]`.
        let sweep = rows(x.len() / self.c, self.k, self.c);
        let Matrix { c, k, kernels, weights: scratch, .. } = self;
        weights::sum(kernels, &sweep, dy, x, &[0], [1, *k], *c, dweight, team, scratch);
    }
}

fn inputs(channels: usize) -> Inputs {
    Inputs { rows: 1, taps: 1, channels, dense_w: true }
}

/// Rows of `from` elements to rows of `to` elements.
fn rows(count: usize, from: usize, to: usize) -> Sweep {
    Sweep { x0: 0, y0: 0, extent: [1, 1, 1, count], x_step: [0, 0, 0, from], y_step: [0, 0, 0, to] }
}
