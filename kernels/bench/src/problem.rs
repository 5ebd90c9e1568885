//! One layer, or one optimizer, as a line of text.

use crate::{Amount, Pass};
use shardmark_host::Shortage;
use shardmark_layers::conv::ConvTranspose;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::{GradientHalo, Op};
use shardmark_partition::Shape;
use shardmark_problem::{Fields, LayerLine, LineError};
use std::fmt;
use std::str::FromStr;

/// Why a line is not a problem, or cannot be timed.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// The line does not parse.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The pass is unknown or the problem has none of the kind.
    #[error("pass of `{line}`: expected one of {expected}, got {got}; name another pass")]
    Pass {
        /// The line.
        line: String,
        /// The passes of this problem.
        expected: String,
        /// What was asked for.
        got: String,
    },
    /// The layer does not fit its input.
    #[error(transparent)]
    Spec(#[from] shardmark_layers::SpecError),
    /// The problem needs more memory than there is.
    #[error("memory of `{line}`: {shortage}; lower its sizes")]
    Memory {
        /// The line.
        line: String,
        /// How much it needs.
        shortage: Shortage,
    },
    /// The layer could not run.
    #[error(transparent)]
    Layer(#[from] shardmark_layers::LayerError),
}

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
        let work = match line.split_whitespace().next() {
            Some("adam") => {
                let spec = OptimSpec::Adam { lr: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
                update(line, spec)?
            }
            Some("sgd") => update(line, OptimSpec::Sgd { lr: 1e-3, momentum: 0.0, weight_decay: 0.0 })?,
            _ => layer(line)?,
        };
        Ok(Problem { work, line: line.to_string() })
    }
}

fn update(line: &str, optimizer: OptimSpec) -> Result<Work, ProblemError> {
    Ok(Work::Update { optimizer, len: Fields::split(line, &["len"])?.count("len")? })
}

fn layer(line: &str) -> Result<Work, ProblemError> {
    let layer: LayerLine = line.parse().map_err(|error| match error {
        LineError::Layer { line, expected, got } => {
            LineError::Layer { line, expected: format!("{expected}, adam, sgd"), got }
        }
        other => other,
    })?;
    let (x, first) = (layer.x, layer.first);
    let Some(op) = Op::of_line(&layer) else {
        let conv = ConvTranspose { c: x[4], k: layer.k, windows: layer.windows };
        return Ok(Work::Transposed { conv, x, y: layer.output(), first });
    };
    let y = op.out_shape(x)?;
    Ok(Work::Layer { op, x, y, first })
}
