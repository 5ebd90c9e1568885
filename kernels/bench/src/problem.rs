//! One layer, or one optimizer, as a line of text.

use crate::{Amount, Fields, Pass, ProblemError};
use shardmark_layers::activation::LeakyRelu;
use shardmark_layers::conv::{Conv, ConvTranspose};
use shardmark_layers::dense::Dense;
use shardmark_layers::norm::BatchNorm;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::pool::{Pool, PoolMode};
use shardmark_layers::{GradientHalo, Op};
use shardmark_partition::{AxisSet, SPATIAL, Shape, Window};
use std::fmt;
use std::str::FromStr;

/// A problem: what is computed, on what sizes, and the line that says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What is computed.
    pub work: Work,
    line: String,
}

/// What a line can name.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A layer on a whole input.
    Layer {
        /// The layer.
        op: Op,
        /// Input `[N, D, H, W, C]`.
        x: Shape,
        /// Output `[N, D', H', W', K]`.
        y: Shape,
        /// Whether it reads the network's input, whose gradient nobody wants.
        first: bool,
    },
    /// A transposed convolution on a whole input.
    Transposed {
        /// The layer.
        conv: ConvTranspose,
        /// Input `[N, D, H, W, C]`.
        x: Shape,
        /// Output `[N, D', H', W', K]`.
        y: Shape,
        /// Whether it reads the network's input.
        first: bool,
    },
    /// The update of a parameter.
    Update {
        /// The optimizer.
        optimizer: OptimSpec,
        /// Values of the parameter.
        len: usize,
    },
}

const WINDOWED: [&str; 8] = ["n", "c", "k", "in", "kernel", "stride", "pad", "first"];
const DENSE: [&str; 4] = ["n", "c", "k", "first"];
const POOLED: [&str; 6] = ["n", "c", "in", "kernel", "stride", "pad"];
const POINTWISE: [&str; 3] = ["n", "c", "in"];
const OPTIMIZER: [&str; 1] = ["len"];

/// The first words, for the error that tells them.
const NAMES: &str = "conv2d, conv3d, conv_transpose2d, conv_transpose3d, dense, pool_avg2d, pool_avg3d, pool_max2d, \
                     pool_max3d, batch_norm, leaky_relu, adam, sgd";

impl Problem {
    /// The passes that a bench times one by one.
    pub fn passes(&self) -> &'static [Pass] {
        match &self.work {
            Work::Update { .. } => &[Pass::Update],
            Work::Layer { first: true, .. } | Work::Transposed { first: true, .. } => {
                &[Pass::Forward, Pass::BackwardParams]
            }
            // The gradients of batch norm's parameters come with the data gradient.
            Work::Layer { op: Op::Norm(_), .. } => &[Pass::Forward, Pass::BackwardData],
            Work::Layer { op, .. } if op.params().is_empty() => &[Pass::Forward, Pass::BackwardData],
            Work::Layer { .. } | Work::Transposed { .. } => &[Pass::Forward, Pass::BackwardData, Pass::BackwardParams],
        }
    }

    /// A pass by name: one of [`Problem::passes`], or `backward` for all of a layer's gradients.
    ///
    /// # Errors
    /// The problem has no such pass.
    pub fn pass(&self, name: &str) -> Result<Pass, ProblemError> {
        let whole = (!matches!(self.work, Work::Update { .. })).then_some(Pass::Backward);
        let mut known = self.passes().iter().copied().chain(whole);
        known.clone().find(|pass| pass.name() == name).ok_or_else(|| ProblemError::Pass {
            line: self.line.clone(),
            expected: known.by_ref().map(Pass::name).collect::<Vec<_>>().join(", "),
            got: name.to_string(),
        })
    }

    /// What a pass has to do. Convolutions and dense layers count operations, padded taps among them, as many for each
    /// gradient as forward. All others count bytes: every tensor that the pass reads or writes once, those that do not
    /// fit into a cache between two sweeps (batch norm's) as often as they are swept; a line of cache that is fetched
    /// only to be overwritten does not count.
    pub fn amount(&self, pass: Pass) -> Amount {
        let elements = |shape: &Shape| shape.iter().map(|&e| e as u64).product::<u64>();
        let gradients = |first: bool| if pass == Pass::Backward && !first { 2 } else { 1 };
        match &self.work {
            Work::Layer { op: op @ (Op::Conv(_) | Op::Dense(_)), y, first, .. } => {
                Amount::Flops(gradients(*first) * op.forward_flops(elements(y)))
            }
            Work::Transposed { conv, x, first, .. } => {
                Amount::Flops(gradients(*first) * Op::Conv(conv.adjoint()).forward_flops(elements(x)))
            }
            Work::Layer { op, x, y, .. } => {
                let (x, y) = (elements(x), elements(y));
                let values = match (op, pass) {
                    (Op::Norm(_), Pass::Forward) => 2 * x + y,
                    (Op::Norm(_), _) => 3 * x + 2 * y,
                    (_, Pass::Forward) => x + y,
                    (Op::Pool(pool), _) if pool.gradient_halo() == GradientHalo::Gather => x + y,
                    _ => 2 * x + y,
                };
                Amount::Bytes(size_of::<f32>() as u64 * values)
            }
            Work::Update { optimizer, len } => {
                // Value and state are read and written, the gradient is read.
                let sweeps = 3 + 2 * optimizer.state_names().len() as u64;
                Amount::Bytes(size_of::<f32>() as u64 * sweeps * *len as u64)
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl FromStr for Problem {
    type Err = ProblemError;

    fn from_str(line: &str) -> Result<Self, ProblemError> {
        let line = line.trim();
        let name = line.split_whitespace().next().unwrap_or("nothing");
        let work = match name {
            "conv2d" => conv(line, 2)?,
            "conv3d" => conv(line, 3)?,
            "conv_transpose2d" => transposed(line, 2)?,
            "conv_transpose3d" => transposed(line, 3)?,
            "dense" => dense(line)?,
            "pool_avg2d" => pool(line, 2, PoolMode::Average)?,
            "pool_avg3d" => pool(line, 3, PoolMode::Average)?,
            "pool_max2d" => pool(line, 2, PoolMode::Max)?,
            "pool_max3d" => pool(line, 3, PoolMode::Max)?,
            "batch_norm" => pointwise(line, |channels| {
                Op::Norm(BatchNorm { channels, eps: 1e-5, momentum: 0.1, group: AxisSet::NONE })
            })?,
            "leaky_relu" => pointwise(line, |_| Op::LeakyRelu(LeakyRelu { slope: 0.01 }))?,
            "adam" => {
                let spec = OptimSpec::Adam { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
                update(line, spec)?
            }
            "sgd" => update(line, OptimSpec::Sgd { lr: 1e-3, momentum: 0.0, weight_decay: 0.0 })?,
            _ => {
                return Err(ProblemError::Layer { line: line.into(), expected: NAMES.into(), got: name.into() });
            }
        };
        Ok(Problem { work, line: line.to_string() })
    }
}

fn conv(line: &str, dims: usize) -> Result<Work, ProblemError> {
    let fields = Fields::split(line, &WINDOWED)?;
    let op =
        Op::Conv(Conv { c: fields.count("c")?, k: fields.count("k")?, windows: windows(&fields, dims)?, bias: false });
    layer(op, input(&fields, Some(dims))?, fields.flag("first")?)
}

fn transposed(line: &str, dims: usize) -> Result<Work, ProblemError> {
    let fields = Fields::split(line, &WINDOWED)?;
    let conv = ConvTranspose { c: fields.count("c")?, k: fields.count("k")?, windows: windows(&fields, dims)? };
    let x = input(&fields, Some(dims))?;
    let y = conv.out_shape(x);
    if y.contains(&0) {
        return Err(fields.error("pad", "a padding that leaves an output", fields.text("pad")));
    }
    Ok(Work::Transposed { conv, x, y, first: fields.flag("first")? })
}

fn dense(line: &str) -> Result<Work, ProblemError> {
    let fields = Fields::split(line, &DENSE)?;
    let (c, k) = (fields.count("c")?, fields.count("k")?);
    let op = Op::Dense(Dense { c, k, bias: true, bias_init: 0.0 });
    layer(op, [fields.count("n")?, 1, 1, 1, c], fields.flag("first")?)
}

fn pool(line: &str, dims: usize, mode: PoolMode) -> Result<Work, ProblemError> {
    let fields = Fields::split(line, &POOLED)?;
    let op = Op::Pool(Pool { mode, windows: windows(&fields, dims)? });
    layer(op, input(&fields, Some(dims))?, false)
}

fn pointwise(line: &str, op: impl FnOnce(usize) -> Op) -> Result<Work, ProblemError> {
    let fields = Fields::split(line, &POINTWISE)?;
    let x = input(&fields, None)?;
    layer(op(x[4]), x, false)
}

fn update(line: &str, optimizer: OptimSpec) -> Result<Work, ProblemError> {
    Ok(Work::Update { optimizer, len: Fields::split(line, &OPTIMIZER)?.count("len")? })
}

fn layer(op: Op, x: Shape, first: bool) -> Result<Work, ProblemError> {
    let y = op.out_shape(x)?;
    Ok(Work::Layer { op, x, y, first })
}

/// The input of a line: `n`, `c`, and `in` with an extent a dimension (any number of dimensions if `None`).
fn input(fields: &Fields, dims: Option<usize>) -> Result<Shape, ProblemError> {
    let extents = fields.list("in");
    if extents.len() > SPATIAL.len() || dims.is_some_and(|dims| dims != extents.len()) {
        return Err(per_dim_error(fields, "in"));
    }
    let mut x = [fields.count("n")?, 1, 1, 1, fields.count("c")?];
    for (extent, text) in x[4 - extents.len()..4].iter_mut().zip(extents) {
        *extent = fields.number("in", text, 1)?;
    }
    Ok(x)
}

/// Windows whose sizes are written once for all dimensions or once for each.
fn windows(fields: &Fields, dims: usize) -> Result<[Window; 3], ProblemError> {
    let per_dim = |key| {
        let parts = fields.list(key);
        match parts.len() {
            1 => Ok(vec![parts[0]; dims]),
            n if n == dims => Ok(parts),
            _ => Err(per_dim_error(fields, key)),
        }
    };
    let (kernel, stride, pad) = (per_dim("kernel")?, per_dim("stride")?, per_dim("pad")?);
    let mut windows = [Window::POINT; 3];
    for (i, window) in windows[SPATIAL.len() - dims..].iter_mut().enumerate() {
        let (before, after) = pad[i].split_once(':').unwrap_or((pad[i], pad[i]));
        *window = Window {
            kernel: fields.number("kernel", kernel[i], 1)?,
            stride: fields.number("stride", stride[i], 1)?,
            pad: fields.number("pad", before, 0)?,
            pad_after: fields.number("pad", after, 0)?,
        };
    }
    Ok(windows)
}

fn per_dim_error(fields: &Fields, key: &str) -> ProblemError {
    fields.error(key, "one value for each dimension, joined by x", fields.text(key))
}
