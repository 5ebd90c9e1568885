//! Products with a matrix of weights `[K, C]` over many rows: a 1x1 convolution whose positions are the rows.

use super::dispatch::{Isa, Kernels};
use super::gather::{self, Job};
use super::pack::{Inputs, Packed};
use super::sweep::Sweep;
use shardmark_host::Team;
use shardmark_tensor::Real;

/// The weights of a dense layer, packed where that pays, and the buffers of a rank.
pub(crate) struct Matrix<T: Real> {
    c: usize,
    k: usize,
    kernels: &'static Kernels<T>,
    forward: Packed<T>,
    backward: Packed<T>,
    /// The inputs, in the part of weights.
    gradient: Packed<T>,
    gather: gather::Scratch<T>,
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
            gradient: Packed::rows(kernels, c, inputs(0)),
            gather: gather::Scratch::default(),
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
        packed.prepare(team, weight, bias, &sweep);
        gather::gather(
            &Job { kernels, sweep, x, rows: &[0], packed, weight, inner: 1, slope: T::ONE },
            y,
            team,
            scratch,
        );
    }

    /// `dx = dy weight` over rows, with weights `[K, C]`.
    pub fn backward_data(&mut self, team: &Team, weight: &[T], dy: &[T], dx: &mut [T]) {
        let sweep = rows(dy.len() / self.k, self.k, self.c);
        let Matrix { kernels, backward: packed, gather: scratch, .. } = self;
        packed.prepare(team, weight, &[], &sweep);
        gather::gather(
            &Job { kernels, sweep, x: dy, rows: &[0], packed, weight, inner: 1, slope: T::ONE },
            dx,
            team,
            scratch,
        );
    }

    /// `dweight = dy^T x` over rows.
    pub fn backward_weight(&mut self, team: &Team, x: &[T], dy: &[T], dweight: &mut [T]) {
        let Matrix { c, k, kernels, gradient: packed, gather: scratch, .. } = self;
        // The rows are what is summed over: those of x are the weights of a product with the columns of dy.
        packed.inputs = inputs(x.len() / *c);
        packed.forget();
        let sweep = rows(*k, 1, *c);
        packed.prepare(team, x, &[], &sweep);
        let job = Job { kernels, sweep, x: dy, rows: &[0], packed, weight: x, inner: *k, slope: T::ONE };
        gather::gather(&job, dweight, team, scratch);
    }
}

fn inputs(channels: usize) -> Inputs {
    Inputs { rows: 1, taps: 1, channels, dense_w: true }
}

/// Rows of `from` elements to rows of `to` elements.
fn rows(count: usize, from: usize, to: usize) -> Sweep {
    Sweep { x0: 0, y0: 0, extent: [1, 1, 1, count], x_step: [0, 0, 0, from], y_step: [0, 0, 0, to] }
}

#[cfg(test)]
mod tests {
    use super::super::ISAS;
    use super::*;

    /// Small integers, whose products are summed without rounding.
    fn integers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7 + i / 5 * seed) % 5) as f32 - 2.0).collect()
    }

    /// `a b` over the inner index of `a(i, j)` and `b(j, l)`.
    fn product([m, n, k]: [usize; 3], a: impl Fn(usize, usize) -> f32, b: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let at = |i: usize, l: usize| (0..n).map(|j| a(i, j) * b(j, l)).sum();
        (0..m * k).map(|i| at(i / k, i % k)).collect()
    }

    #[test]
    fn products_are_exact_for_any_instruction_set_and_team() {
        // Rows, C, K: copied and not, several stretches and chunks, blocks of one vector, tails.
        let sizes = [[1, 3, 2], [17, 40, 300], [250, 33, 290], [31, 2060, 37], [1040, 270, 35], [16, 290, 1100]];
        for isa in ISAS.into_iter().filter(|isa| isa.available()) {
            for [rows, c, k] in sizes {
                let (x, dy, weight) = (integers(rows * c, 3), integers(rows * k, 11), integers(k * c, 2));
                let bias = integers(k, 1);
                let mut y = product([rows, c, k], |n, i| x[n * c + i], |i, o| weight[o * c + i]);
                y.chunks_mut(k).for_each(|y| y.iter_mut().zip(&bias).for_each(|(y, b)| *y += b));
                let dx = product([rows, k, c], |n, o| dy[n * k + o], |o, i| weight[o * c + i]);
                let dw = product([k, rows, c], |o, n| dy[n * k + o], |n, i| x[n * c + i]);
                for threads in [1, 3] {
                    let team = Team::new(threads).expect("threads");
                    let mut matrix = Matrix::new(c, k, isa);
                    // Once more after other rows: what is kept from call to call does not matter.
                    let all = rows;
                    for rows in [all, all.div_ceil(2), all] {
                        let (x, dy) = (&x[..rows * c], &dy[..rows * k]);
                        let mut got = [vec![1.0; rows * k], vec![1.0; rows * c], vec![1.0; k * c]];
                        matrix.forward(&team, &weight, &bias, x, &mut got[0]);
                        matrix.backward_data(&team, &weight, dy, &mut got[1]);
                        matrix.backward_weight(&team, x, dy, &mut got[2]);
                        assert!(got[0] == y[..rows * k], "{isa} y {rows} {c} {k}");
                        assert!(got[1] == dx[..rows * c], "{isa} dx {rows} {c} {k}");
                        assert!(rows < all || got[2] == dw, "{isa} dw {rows} {c} {k}");
                    }
                }
            }
        }
    }
}
