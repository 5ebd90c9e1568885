//! Transposed convolution: the adjoint of a convolution from its output back to its input.
//!
//! `y[n, i*s-p+t, k] += x[n, i, c] * weight[c, k, t]` over all inputs i and taps t, for each of D, H, W; no bias.
//! x: `[N, D, H, W, C]`, y: `[N, D', H', W', K]` with `D' = (D - 1)*s - 2*p + kernel`, weight: `[C, K, KD, KH, KW]`.
//!
//! The adjoint is a convolution with K channels in and C out: its data gradient is the forward pass here, its forward
//! pass the data gradient, and in its weight gradient x and dy change places.

use super::{Algorithm, Conv, Isa, Local};
use shardmark_host::Team;
use shardmark_partition::{Region, Shape, Window};
use shardmark_tensor::{Block, Real};

/// Shape of a transposed convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTranspose {
    /// Input channels.
    pub c: usize,
    /// Output channels.
    pub k: usize,
    /// Windows of the adjoint convolution along D, H, W.
    pub windows: [Window; 3],
}

impl ConvTranspose {
    /// The convolution whose transpose this is.
    pub fn adjoint(&self) -> Conv {
        Conv { c: self.k, k: self.c, windows: self.windows, bias: false, algorithm: Algorithm::Auto }
    }

    /// Output shape for an input shape `[N, D, H, W, C]`; an extent is 0 where the padding leaves none.
    pub fn out_shape(&self, x: Shape) -> Shape {
        let extent = |i: usize| {
            let w = &self.windows[i];
            (x[i + 1].saturating_sub(1) * w.stride + w.kernel).saturating_sub(w.pad + w.pad_after)
        };
        [x[0], extent(0), extent(1), extent(2), self.k]
    }
}

/// Transposed convolution on blocks: sub-boxes in global coordinates.
pub struct TransposedLocal<T: Real>(Local<T>);

impl<T: Real> TransposedLocal<T> {
    /// Kernels of an available instruction set.
    pub fn new(spec: &ConvTranspose, x: Shape, isa: Isa) -> Self {
        TransposedLocal(Local::new(spec.adjoint(), x, isa))
    }

    /// The weights that are given from now on are others.
    pub fn forget_weights(&mut self) {
        self.0.forget_weights();
    }

    /// Computes the outputs `part` with the weights `[KD, KH, KW, K, C]`; `x` covers all inputs that reach them, with zeros
    /// outside the tensor.
    pub fn forward(&mut self, team: &Team, weight: &[T], x: &Block<T>, y: &mut Block<T>, part: &Region) {
        self.0.backward_data(team, weight, x, y, part);
    }

    /// Computes the input gradients `part` with the weights `[KD, KH, KW, K, C]`; `dy` covers the outputs that they
    /// reached, with zeros outside the tensor.
    pub fn backward_data(&mut self, team: &Team, weight: &[T], dy: &Block<T>, dx: &mut Block<T>, part: &Region) {
        self.0.forward(team, weight, &[], dy, dx, part);
    }

    /// Overwrites `dw` (`[KD, KH, KW, K, C]`) with the sum over the inputs `part`; `dy` covers the outputs that they
    /// reached, with zeros outside the tensor.
    pub fn backward_weight(&mut self, team: &Team, x: &Block<T>, dy: &Block<T>, part: &Region, dw: &mut [T]) {
        self.0.backward_weight(team, dy, x, part, dw);
    }
}
