//! Gradients of a rank's share of a layer's parameters, from the inputs and output gradients of all samples.
//!
//! Where weights are many and outputs are few, it takes less to bring every sample to every rank than to sum gradients of
//! all weights over the ranks. A weight gradient is a matrix product over all outputs `o`: its row `r` is
//! `sum over o of a[o, r] * v[o, :]`. Dense, weight `[K, C]`: a row is an output feature, `a` is dy and `v` is x.
//! Convolution, weight as `[KD, KH, KW, C, K]`: a row is an input channel at a tap, `a` the input that the output reads
//! there, 0 outside, and `v` is dy.

use crate::conv::{Conv, Isa, Matrix};
use crate::dense::{MANY_ROWS, bias_gradient, weight_gradient};
use crate::{Float, Op, Param};
use shardmark_host::Team;
use shardmark_partition::Shape;
use std::ops::Range;

/// The gradients of some elements of a convolution's or a dense layer's parameters.
pub struct ShareGradient<T: Float> {
    op: Op,
    /// Shapes of input and output; how many samples does not matter.
    x: Shape,
    y: Shape,
    /// Rows of the weight gradient that hold elements of the share.
    rows: Range<usize>,
    /// Elements of a row.
    width: usize,
    /// Whether elements of the bias are among them.
    bias: bool,
    /// `[outputs, rows]` and `[outputs, width]`.
    a: Vec<T>,
    v: Vec<T>,
    /// The gradients of all outputs.
    dy: Vec<T>,
    matrix: Matrix<T>,
}

impl<T: Float> ShareGradient<T> {
    /// For a layer from `x` to `y` that [sums by share](Op::gradient_by_share), and the elements `own` of each of its
    /// parameters; `None` for any other layer.
    pub fn new(op: &Op, x: Shape, y: Shape, own: &[Range<usize>]) -> Option<Self> {
        let width = match op {
            Op::Conv(conv) => conv.k,
            Op::Dense(dense) => dense.c,
            _ => return None,
        };
        let (weight, bias) = own.split_first()?;
        let rows = if weight.is_empty() { 0..0 } else { weight.start / width..weight.end.div_ceil(width) };
        let matrix = Matrix::new(width, rows.len().max(1), Isa::selected());
        let bias = bias.iter().any(|own| !own.is_empty());
        let (a, v, dy) = (Vec::new(), Vec::new(), Vec::new());
        Some(ShareGradient { op: op.clone(), x, y, rows, width, bias, a, v, dy, matrix })
    }

    /// Overwrites the gradients of the share by the sums over all outputs, in the order of `samples`: x and dy of each one,
    /// row-major without margins. Of what lies beside the share, some becomes stale.
    pub fn sum<'s>(&mut self, team: &Team, samples: impl Iterator<Item = (&'s [T], &'s [T])>, params: &mut [Param<T>]) {
        self.a.clear();
        self.v.clear();
        self.dy.clear();
        for (x, dy) in samples {
            match &self.op {
                Op::Conv(conv) => {
                    read_windows(conv, self.x, self.y, x, self.rows.clone(), &mut self.a);
                    self.v.extend_from_slice(dy);
                }
                _ => {
                    self.a.extend_from_slice(&dy[self.rows.clone()]);
                    self.v.extend_from_slice(x);
                    self.dy.extend_from_slice(if self.bias { dy } else { &[] });
                }
            }
        }
        if !self.rows.is_empty() {
            let dw = &mut params[0].grad[self.rows.start * self.width..self.rows.end * self.width];
            if self.v.len() < MANY_ROWS * self.width {
                weight_gradient(team, self.width, self.rows.len(), &self.v, &self.a, dw);
            } else {
                self.matrix.backward_weight(team, &self.v, &self.a, dw);
            }
        }
        if let Some(bias) = params.get_mut(1).filter(|_| self.bias) {
            let dy = if let Op::Conv(_) = self.op { &self.v } else { &self.dy };
            bias_gradient(dy, &mut bias.grad);
        }
    }
}

/// Appends what each output of a sample reads in the taps and channels `rows`: `[outputs, rows]`.
fn read_windows<T: Float>(conv: &Conv, x_shape: Shape, y_shape: Shape, x: &[T], rows: Range<usize>, a: &mut Vec<T>) {
    let [_, d, h, w, c] = x_shape;
    let [_, kh, kw] = conv.windows.map(|window| window.kernel);
    let [_, out_d, out_h, out_w, _] = y_shape;
    let outputs = (0..out_d * out_h * out_w).map(|o| [o / (out_h * out_w), o / out_w % out_h, o % out_w]);
    for output in outputs {
        for tap in rows.start / c..rows.end.div_ceil(c) {
            let channels = rows.start.max(tap * c) - tap * c..rows.end.min((tap + 1) * c) - tap * c;
            let taps = [tap / (kh * kw), tap / kw % kh, tap % kw];
            let at: [Option<usize>; 3] = std::array::from_fn(|i| {
                let (window, extent) = (conv.windows[i], [d, h, w][i]);
                (output[i] * window.stride + taps[i]).checked_sub(window.pad).filter(|&at| at < extent)
            });
            match at {
                [Some(at_d), Some(at_h), Some(at_w)] => {
                    let first = ((at_d * h + at_h) * w + at_w) * c;
                    a.extend_from_slice(&x[first + channels.start..first + channels.end]);
                }
                _ => a.resize(a.len() + channels.len(), T::ZERO),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::{Algorithm, Conv};
    use crate::dense::Dense;
    use crate::testing::{alone, cut, integers};
    use shardmark_host::SOLO;
    use shardmark_partition::{Dim, Region, SPATIAL, Window, block};

    /// All shares of a layer's parameters against the layer's own gradients, over some parts of the batch.
    fn shares_are_exact<T: Float>(op: &Op, x_shape: Shape, ranks: usize) {
        let y_shape = op.out_shape(x_shape).unwrap();
        let (x, dy) = (integers(x_shape.iter().product(), 1), integers(y_shape.iter().product(), 2));
        let out = Region::full(y_shape);
        let mut read = Region::full(x_shape);
        for (window, dim) in op.windows().iter().zip(SPATIAL) {
            read = read.with(dim, read.span(dim).hull(window.inputs(out.span(dim))));
        }
        let mut layer = op.build::<T>(x_shape);
        let (x_block, dy_block) = (cut(x_shape, &x, read, T::ZERO), cut(y_shape, &dy, out, T::ZERO));
        layer.backward_params(&alone(), &x_block, &dy_block, &out).unwrap();
        let expected: Vec<Vec<T>> = layer.params().iter().map(|p| p.grad.clone()).collect();
        let lens: Vec<usize> = expected.iter().map(Vec::len).collect();
        let narrow = |values: &[f64]| values.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>();
        let (x, dy) = (narrow(&x), narrow(&dy));
        let n = x_shape[Dim::N as usize];
        let samples = || x.chunks(x.len() / n).zip(dy.chunks(dy.len() / n));
        for rank in 0..ranks {
            let share = block(lens.iter().sum(), ranks, rank);
            let inside = |at: i64| {
                lens.iter().scan(0, move |first, &len| {
                    let (from, len) = (*first, len as i64);
                    *first += len;
                    Some((at.clamp(from, from + len) - from) as usize)
                })
            };
            let own: Vec<Range<usize>> = inside(share.lo).zip(inside(share.hi)).map(|(lo, hi)| lo..hi).collect();
            let mut sum = ShareGradient::new(op, x_shape, y_shape, &own).unwrap();
            let mut params: Vec<Param<T>> = lens.iter().map(|&len| Param::zeros(len)).collect();
            // Once more: what is kept from call to call does not matter.
            for _ in 0..2 {
                params.iter_mut().for_each(|p| p.grad.fill(T::from_f64(9.0)));
                sum.sum(&SOLO, samples(), &mut params);
            }
            for ((param, expected), own) in params.iter().zip(&expected).zip(own) {
                assert!(param.grad[own.clone()] == expected[own], "{op:?} on {x_shape:?}: rank {rank} of {ranks}");
            }
        }
    }

    #[test]
    fn shares_are_those_of_the_whole_gradient() {
        let window = |kernel, stride, pad, pad_after| Window { kernel, stride, pad, pad_after };
        let same = window(2, 1, 0, 1);
        let uneven = [window(3, 2, 1, 1), window(1, 1, 0, 0), window(2, 1, 0, 1)];
        let cases = [
            (Op::Dense(Dense { c: 33, k: 9, bias: true, bias_init: 0.0 }), [3, 1, 1, 1, 33]),
            (Op::Dense(Dense { c: 20, k: 300, bias: false, bias_init: 0.0 }), [1, 1, 1, 1, 20]),
            (Op::Dense(Dense { c: 70, k: 35, bias: true, bias_init: 0.0 }), [37, 1, 1, 1, 70]),
            (Op::Conv(Conv::cube(5, 7, 3, 1, 1, false)), [1, 2, 2, 2, 5]),
            (Op::Conv(Conv::cube(16, 33, 3, 1, 1, true)), [2, 1, 3, 2, 16]),
            (Op::Conv(Conv::cube(3, 4, 3, 2, 1, true)), [2, 5, 4, 3, 3]),
            (
                Op::Conv(Conv { c: 4, k: 3, windows: [same; 3], bias: true, algorithm: Algorithm::Auto }),
                [3, 3, 2, 1, 4],
            ),
            (Op::Conv(Conv { c: 2, k: 18, windows: uneven, bias: true, algorithm: Algorithm::Auto }), [1, 4, 3, 2, 2]),
        ];
        for (op, x) in &cases {
            for ranks in [1, 2, 3, 5, 70] {
                shares_are_exact::<f32>(op, *x, ranks);
                shares_are_exact::<f64>(op, *x, ranks);
            }
        }
    }

    #[test]
    fn layers_without_a_share_are_left_out() {
        let op = Op::LeakyRelu(crate::activation::LeakyRelu { slope: 0.1 });
        assert!(!op.gradient_by_share());
        assert!(ShareGradient::<f32>::new(&op, [1; 5], [1; 5], &[0..1, 0..0]).is_none());
    }
}
