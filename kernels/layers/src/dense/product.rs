//! The products of rows with a weight: few rows go over the weight once, many are a product by the tiles of the convolution.

use super::local;
use crate::Float;
use crate::conv::{Isa, Matrix};
use shardmark_host::Team;

/// Rows from which on the weight is packed and the tiles of the convolution do the work.
const MANY_ROWS: usize = 16;

/// Products with a weight `[K, C]` of x `[R, C]` and y `[R, K]`, row-major; without a feature in or out there is nothing
/// to compute.
pub(crate) struct Product<T: Float> {
    c: usize,
    k: usize,
    matrix: Matrix<T>,
}

impl<T: Float> Product<T> {
    /// For `c` features in and `k` out; the instruction set is [`Isa::selected`].
    pub fn new(c: usize, k: usize) -> Self {
        Product { c, k, matrix: Matrix::new(c.max(1), k.max(1), Isa::selected()) }
    }

    /// The weights that are given from now on are others.
    pub fn forget_weights(&mut self) {
        self.matrix.forget_weights();
    }

    /// `y = x weight^T + bias`; an empty bias adds nothing.
    pub fn forward(&mut self, team: &Team, weight: &[T], bias: &[T], x: &[T], y: &mut [T]) {
        if weight.is_empty() {
            return;
        }
        if x.len() < MANY_ROWS * self.c {
            local::forward(team, weight, bias, self.c, x, y);
        } else {
            self.matrix.forward(team, weight, bias, x, y);
        }
    }

    /// `dx = dy weight`.
    pub fn backward_data(&mut self, team: &Team, weight: &[T], dy: &[T], dx: &mut [T]) {
        if weight.is_empty() {
            return dx.fill(T::ZERO);
        }
        if dy.len() < MANY_ROWS * self.k {
            local::backward_data(team, weight, self.c, dy, dx);
        } else {
            self.matrix.backward_data(team, weight, dy, dx);
        }
    }

    /// `dweight = dy^T x`.
    pub fn backward_weight(&mut self, team: &Team, x: &[T], dy: &[T], dweight: &mut [T]) {
        if dweight.is_empty() {
            return;
        }
        if x.len() < MANY_ROWS * self.c {
            local::weight_gradient(team, self.c, self.k, x, dy, dweight);
        } else {
            self.matrix.backward_weight(team, x, dy, dweight);
        }
    }
}
