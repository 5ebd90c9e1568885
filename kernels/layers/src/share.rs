//! A layer whose parameters are divided among all ranks: each keeps its share, and computes with it for the samples of all.
//!
//! Where weights are many and inputs and outputs are few, it takes less to bring every sample to every rank than to sum
//! gradients over the ranks and to send new weights to all, ranks without samples work too, and each weight is read on one
//! rank only (Krizhevsky 2014, arXiv 1404.5997, section 4: data parallelism for convolutions, model parallelism for fully
//! connected layers). Forward: inputs of all samples are gathered, and what each rank makes of them with its weights is
//! summed at the samples' owners. Backward: the same for output and input gradients; gradients of a share are then there
//! without any communication.
//!
//! A weight is a matrix `w` of rows, of which a rank keeps some; `o` counts outputs. Dense, weight `[K, C]`: a row is an output
//! feature, `y[o, r] = v[o, :] . w[r, :]` with v = x, and `dw[r, :] = sum over o of a[o, r] * v[o, :]` with a = dy.
//! Convolution, weight as `[KD, KH, KW, C, K]`: a row is an input channel at a tap, `y[o, :] = sum over r of a[o, r] * w[r, :]`
//! with a the input that the output reads there, 0 outside, and `dw` as before with v = dy.

mod samples;
#[cfg(test)]
mod tests;
mod windows;

pub use samples::Samples;

use crate::dense::{Product, column_sums};
use crate::{Env, Float, Layer, LayerError, Op, Param};
use shardmark_partition::{Region, Shape, block};
use shardmark_tensor::Block;
use std::ops::Range;

impl Op {
    /// Whether a rank can compute with a share of the parameters: [`Op::build_share`].
    pub fn divides(&self) -> bool {
        matches!(self, Op::Conv(_) | Op::Dense(_))
    }

    /// The elements of parameter `i`, in the layer's layout, that rank `rank` of `ranks` keeps where they are divided: whole
    /// rows of a weight.
    pub fn share(&self, i: usize, rank: usize, ranks: usize) -> Range<usize> {
        let width = if i == 0 { self.row_len() } else { 1 };
        let len = self.params().get(i).map_or(0, |param| param.len());
        let rows = block(len / width, ranks, rank);
        rows.lo as usize * width..rows.hi as usize * width
    }

    /// Most elements that a rank keeps of all parameters.
    pub fn largest_share(&self, ranks: usize) -> usize {
        // The last rank has the most rows of each parameter.
        (0..self.params().len()).map(|i| self.share(i, ranks - 1, ranks).len()).sum()
    }

    /// Elements that a rank with the largest share keeps until it has the gradients of its parameters, for all samples of
    /// shapes `x` and `y`: from the forward pass on, and from the backward pass on.
    pub fn kept_for_share(&self, x: Shape, y: Shape, ranks: usize) -> [usize; 2] {
        let outputs = y[..4].iter().product::<usize>();
        let met = outputs * self.share(0, ranks - 1, ranks).len() / self.row_len();
        let (x, y) = (x.iter().product::<usize>(), y.iter().product::<usize>());
        if matches!(self, Op::Conv(_)) { [x + met, y] } else { [x, y + met] }
    }

    /// The layer of one rank with its share of the parameters, all zero, for a global input shape; `None` for a layer that
    /// does not [divide](Op::divides) them or that the input does not fit.
    pub fn build_share<T: Float>(&self, x: Shape, samples: Samples) -> Option<ShareLayer<T>> {
        let y = self.out_shape(x).ok().filter(|_| self.divides())?;
        let (rank, ranks, width) = (samples.rank(), samples.ranks(), self.row_len());
        let own: Vec<Range<usize>> = (0..self.params().len()).map(|i| self.share(i, rank, ranks)).collect();
        let rows = own[0].start / width..own[0].end / width;
        Some(ShareLayer {
            op: self.clone(),
            x,
            y,
            samples,
            product: Product::new(width, rows.len()),
            params: own.iter().map(|own| Param::zeros(own.len())).collect(),
            bias: own.get(1).cloned().unwrap_or_default(),
            rows,
            all_x: Vec::new(),
            all_dy: Vec::new(),
            dy_is_here: false,
            met: Vec::new(),
            made: Vec::new(),
            partial: Vec::new(),
        })
    }

    /// Elements of a row of the weight.
    fn row_len(&self) -> usize {
        match self {
            Op::Conv(conv) => conv.k,
            Op::Dense(dense) => dense.c,
            _ => 1,
        }
    }
}

/// A rank's part of a convolution or a dense layer. All ranks call each pass once, for all that they own, also when that is
/// nothing; parameter gradients come last.
pub struct ShareLayer<T: Float> {
    op: Op,
    /// Shapes of input and output.
    x: Shape,
    y: Shape,
    samples: Samples,
    /// Rows of the weight that are here, and elements of the bias.
    rows: Range<usize>,
    bias: Range<usize>,
    params: Vec<Param<T>>,
    product: Product<T>,
    /// Inputs and output gradients of all samples.
    all_x: Vec<T>,
    all_dy: Vec<T>,
    /// Whether the output gradients of this step have been gathered.
    dy_is_here: bool,
    /// What meets the own rows: `[outputs, rows]`, the inputs that outputs read, or output gradients of a dense layer.
    met: Vec<T>,
    /// What the own rows make: `[outputs, rows]`, gradients of the inputs that outputs read, or outputs of a dense layer.
    made: Vec<T>,
    /// What this rank adds to the outputs or to the input gradients of all samples.
    partial: Vec<T>,
}

impl<T: Float> ShareLayer<T> {
    /// What the own parameters add to the outputs of all samples.
    fn outputs(&mut self, env: &Env) {
        let Self { op, x, y, rows, bias, params, product, all_x, met, made, partial, .. } = self;
        let (weight, features) = (&params[0].value, y[4]);
        partial.clear();
        partial.resize(y.iter().product(), T::ZERO);
        if let Op::Conv(conv) = op {
            windows::read(conv, [*x, *y], all_x, rows, met);
            product.backward_data(env.team, weight, met, partial);
        } else {
            made.resize(y[0] * rows.len(), T::ZERO);
            product.forward(env.team, weight, &[], all_x, made);
            copy_columns(rows.len(), (made, rows.len(), 0), (partial, features, rows.start));
        }
        let Some(values) = params.get(1).map(|param| &param.value) else { return };
        for y in partial.chunks_exact_mut(features) {
            y[bias.clone()].iter_mut().zip(values).for_each(|(y, &bias)| *y += bias);
        }
    }

    /// What the own weights add to the input gradients of all samples.
    fn input_gradients(&mut self, env: &Env) {
        let Self { op, x, y, rows, params, product, all_dy, met, made, partial, .. } = self;
        let weight = &params[0].value;
        partial.clear();
        partial.resize(x.iter().product(), T::ZERO);
        if let Op::Conv(conv) = op {
            made.resize(all_dy.len() / y[4] * rows.len(), T::ZERO);
            product.forward(env.team, weight, &[], all_dy, made);
            windows::add(conv, [*x, *y], made, rows, partial);
        } else {
            product.backward_data(env.team, weight, met, partial);
        }
    }

    /// Gathers the output gradients of all samples.
    fn gather_dy(&mut self, env: &Env, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        self.samples.gather(env, self.y, dy, part, &mut self.all_dy)?;
        self.dy_is_here = true;
        if let Op::Dense(dense) = &self.op {
            let rows = &self.rows;
            self.met.resize(self.y[0] * rows.len(), T::ZERO);
            copy_columns(rows.len(), (&self.all_dy, dense.k, rows.start), (&mut self.met, rows.len(), 0));
        }
        Ok(())
    }
}

impl<T: Float> Layer<T> for ShareLayer<T> {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        self.dy_is_here = false;
        self.samples.gather(env, self.x, x, part, &mut self.all_x)?;
        self.outputs(env);
        self.samples.sum(env, self.y, &mut self.partial, y, part)
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
        self.gather_dy(env, dy, part)?;
        self.input_gradients(env);
        self.samples.sum(env, self.x, &mut self.partial, dx, part)
    }

    /// The gradients of the share, final: over the samples of all ranks. Output gradients are gathered if the data gradient
    /// was not asked for; else `x` and `dy` are not looked at.
    fn backward_params(&mut self, env: &Env, _x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        if !self.dy_is_here {
            self.gather_dy(env, dy, part)?;
        }
        let Self { op, y, bias: own, params, product, all_x, all_dy, met, .. } = self;
        let v = if matches!(op, Op::Conv(_)) { &all_dy } else { &all_x };
        product.backward_weight(env.team, v, met, &mut params[0].grad);
        if let Some(bias) = params.get_mut(1) {
            column_sums(all_dy, y[4], own.start, &mut bias.grad);
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

/// Copies `count` columns from a matrix to a matrix: each given with the elements of its rows and the first column.
fn copy_columns<T: Copy>(count: usize, source: (&[T], usize, usize), target: (&mut [T], usize, usize)) {
    let ((from, from_row, from_first), (to, to_row, to_first)) = (source, target);
    for (from, to) in from.chunks_exact(from_row.max(1)).zip(to.chunks_exact_mut(to_row.max(1))) {
        to[to_first..to_first + count].copy_from_slice(&from[from_first..from_first + count]);
    }
}
