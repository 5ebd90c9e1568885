//! Products with a matrix of weights `[K, C]` over many rows: a 1x1 convolution whose positions are the rows.

use super::dispatch::{Isa, Kernels};
use super::gather::{self, Job, Sweep};
use super::pack::{Inputs, Packed};
use super::weights;
use shardmark_host::Team;
use shardmark_tensor::Real;

/// The weights of a dense layer, packed where that pays, and the buffers of a rank.
pub(crate) struct Matrix<T: Real> {
    c: usize,
    k: usize,
    kernels: &'static Kernels<T>,
    forward: Packed<T>,
    backward: Packed<T>,
    gather: gather::Scratch<T>,
    weights: weights::Scratch<T>,
}

impl<T: Real> Matrix<T> {
    /// Kernels of an available instruction set.
    pub fn new(c: usize, k: usize, isa: Isa) -> Self {
        let kernels = Kernels::of(isa);
        Matrix {
            c,
            k,
            kernels,
            forward: Packed::columns(kernels, k, inputs(c), vec![0]),
            backward: Packed::rows(kernels, c, inputs(k)),
            gather: gather::Scratch::default(),
            weights: weights::Scratch::default(),
        }
    }

    /// The weights that are given from now on are others.
    pub fn forget_weights(&mut self) {
        self.forward.forget();
        self.backward.forget();
    }

    /// `y = x weight^T + bias` over rows x `[R, C]`, y `[R, K]`, with weights `[K, C]` and bias `[K]`, or none.
    pub fn forward(&mut self, team: &Team, weight: &[T], bias: &[T], x: &[T], y: &mut [T]) {
        let sweep = rows(x.len() / self.c, self.c, self.k);
        let Matrix { kernels, forward: packed, gather: scratch, .. } = self;
        packed.prepare(team, weight, bias, sweep.outputs());
        gather::gather(&Job { kernels, sweep, x, rows: &[0], packed, weight, slope: T::ONE }, y, team, scratch);
    }

    /// `dx = dy weight` over rows, with weights `[K, C]`.
    pub fn backward_data(&mut self, team: &Team, weight: &[T], dy: &[T], dx: &mut [T]) {
        let sweep = rows(dy.len() / self.k, self.k, self.c);
        let Matrix { kernels, backward: packed, gather: scratch, .. } = self;
        packed.prepare(team, weight, &[], sweep.outputs());
        gather::gather(&Job { kernels, sweep, x: dy, rows: &[0], packed, weight, slope: T::ONE }, dx, team, scratch);
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
