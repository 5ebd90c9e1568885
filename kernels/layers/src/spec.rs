//! Shape-only descriptions of layers: what a graph, a plan and a simulator need to know without a tensor.

use crate::{Float, Layer, activation, conv, dense, dropout, norm, pool};
use shardmark_partition::step::{CollectiveKind, Pass};
use shardmark_partition::{AxisSet, Shape, Window};
use std::fmt;

/// A layer of a network; the registry of everything that can stand in a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Convolution over D, H, W.
    Conv(conv::Conv),
    /// Average or max pooling over D, H, W.
    Pool(pool::Pool),
    /// Batch normalisation.
    Norm(norm::BatchNorm),
    /// Leaky ReLU.
    LeakyRelu(activation::LeakyRelu),
    /// Scaled hyperbolic tangent.
    Tanh(activation::Tanh),
    /// Dropout with a grid-independent mask.
    Dropout(dropout::Dropout),
    /// `[N, D, H, W, C]` to `[N, C*D*H*W]`, flattened in the order C, D, H, W.
    Flatten(dense::Flatten),
    /// Fully connected layer.
    Dense(dense::Dense),
}

/// Start values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Uniform around 0; whoever fills it in chooses by which rule the limit follows from the fans.
    Uniform {
        /// Inputs of one output.
        fan_in: usize,
        /// Outputs of one input.
        fan_out: usize,
    },
    /// One value.
    Constant(f64),
}

/// A parameter of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Name within the layer as PyTorch has it: `weight`, `bias`.
    pub name: &'static str,
    /// Shape as PyTorch has it; a convolution's weight is `[K, C, KD, KH, KW]`.
    pub shape: Vec<usize>,
    /// Start values.
    pub init: Init,
}

impl ParamSpec {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a layer's data gradient meets the borders between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientHalo {
    /// The owner of an input gathers the output gradients that reach it (their halo is exchanged before).
    Gather,
    /// The owner of an output scatters to the inputs it read (margins are sent to their owners and added after).
    Scatter,
}

/// A collective that a layer performs itself; left out when the group has one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Axes that vary inside the group.
    pub group: AxisSet,
    /// Operation.
    pub kind: CollectiveKind,
    /// Payload of one rank.
    pub bytes: u64,
}

/// Why a layer does not fit its input.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A window does not fit into the padded input.
    #[error(
        "{layer}: expected an input of at least {least} along {dim}, got {got}; use a wider volume or fewer layers"
    )]
    TooSmall {
        /// Kind of the layer.
        layer: &'static str,
        /// Dimension.
        dim: shardmark_partition::Dim,
        /// Least extent.
        least: usize,
        /// Extent found.
        got: usize,
    },
    /// The number of channels differs from the spec's.
    #[error("{layer}: expected {expected} input channels, got {got}; chain layers whose channels agree")]
    Channels {
        /// Kind of the layer.
        layer: &'static str,
        /// Channels of the spec.
        expected: usize,
        /// Channels of the input.
        got: usize,
    },
}

impl Op {
    /// Kind of the layer, as records and tables name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Op::Conv(_) => "conv",
            Op::Pool(p) => p.kind(),
            Op::Norm(_) => "batch_norm",
            Op::LeakyRelu(_) => "leaky_relu",
            Op::Tanh(_) => "tanh",
            Op::Dropout(_) => "dropout",
            Op::Flatten(_) => "flatten",
            Op::Dense(_) => "dense",
        }
    }

    /// Windows along D, H, W; pointwise layers read one input an output.
    pub fn windows(&self) -> [Window; 3] {
        match self {
            Op::Conv(c) => c.windows,
            Op::Pool(p) => p.windows,
            _ => [Window::POINT; 3],
        }
    }

    /// Output shape for an input shape.
    ///
    /// # Errors
    /// When a window does not fit or the channels differ.
    pub fn out_shape(&self, x: Shape) -> Result<Shape, SpecError> {
        let expected = match self {
            Op::Conv(c) => c.c,
            Op::Dense(d) => d.c,
            _ => x[4],
        };
        if expected != x[4] {
            return Err(SpecError::Channels { layer: self.kind(), expected, got: x[4] });
        }
        let channels = match self {
            Op::Conv(c) => c.k,
            Op::Dense(d) => d.k,
            Op::Flatten(_) => return Ok([x[0], 1, 1, 1, x[1] * x[2] * x[3] * x[4]]),
            _ => x[4],
        };
        let mut out = [x[0], 0, 0, 0, channels];
        for (window, dim) in self.windows().iter().zip(shardmark_partition::SPATIAL) {
            let i = dim as usize;
            out[i] = window.out_extent(x[i]).ok_or(SpecError::TooSmall {
                layer: self.kind(),
                dim,
                least: window.kernel - (window.pad + window.pad_after).min(window.kernel - 1),
                got: x[i],
            })?;
        }
        Ok(out)
    }

    /// Value of the border that the layer reads outside its input.
    pub fn border<T: Float>(&self) -> T {
        match self {
            Op::Pool(p) => p.border(),
            _ => T::ZERO,
        }
    }

    /// Whether the layer may write its outputs over its inputs: it is pointwise, and its backward pass reads no input.
    pub fn in_place(&self) -> bool {
        match self {
            // The output has the input's sign.
            Op::LeakyRelu(a) => a.slope >= 0.0,
            Op::Tanh(_) | Op::Dropout(_) => true,
            _ => false,
        }
    }

    /// Whether the backward pass reads the layer's own outputs, so that no layer above may overwrite them.
    pub fn reads_output(&self) -> bool {
        match self {
            Op::LeakyRelu(a) => a.slope >= 0.0,
            Op::Tanh(_) => true,
            _ => false,
        }
    }

    /// Whether the layer may write its input gradients over its output gradients: it is pointwise, and its parameter
    /// gradients, if any, come with the input gradient.
    pub fn gradient_in_place(&self) -> bool {
        matches!(self, Op::Norm(_) | Op::LeakyRelu(_) | Op::Tanh(_) | Op::Dropout(_))
    }

    /// Whether the layer works on whole samples only, so that spatial splitting must end before it.
    pub fn whole_samples(&self) -> bool {
        matches!(self, Op::Flatten(_) | Op::Dense(_))
    }

    /// How the data gradient crosses ranks.
    pub fn gradient_halo(&self) -> GradientHalo {
        match self {
            Op::Pool(p) => p.gradient_halo(),
            _ => GradientHalo::Gather,
        }
    }

    /// Parameters, in PyTorch's order.
    pub fn params(&self) -> Vec<ParamSpec> {
        match self {
            Op::Conv(c) => c.params(),
            Op::Norm(n) => n.params(),
            Op::Dense(d) => d.params(),
            _ => Vec::new(),
        }
    }

    /// Converts parameter (or gradient) `i` from the layer's layout to PyTorch's.
    pub fn torch_layout<T: Copy>(&self, i: usize, values: &[T]) -> Vec<T> {
        let mut out = values.to_vec();
        if let (Op::Conv(conv), 0) = (self, i) {
            conv.for_each_weight(|torch, own| out[torch] = values[own]);
        }
        out
    }

    /// Converts parameter (or gradient) `i` from PyTorch's layout to the layer's.
    pub fn layer_layout<T: Copy>(&self, i: usize, values: &[T]) -> Vec<T> {
        let mut out = values.to_vec();
        if let (Op::Conv(conv), 0) = (self, i) {
            conv.for_each_weight(|torch, own| out[own] = values[torch]);
        }
        out
    }

    /// Collectives that the layer performs in a pass, in order.
    pub fn collectives(&self, pass: Pass) -> Vec<Collective> {
        match self {
            Op::Norm(n) => n.collectives(pass),
            _ => Vec::new(),
        }
    }

    /// Floating-point operations to compute `outputs` output elements forward.
    pub fn forward_flops(&self, outputs: u64) -> u64 {
        match self {
            Op::Conv(c) => 2 * (c.taps() * c.c) as u64 * outputs,
            Op::Dense(d) => 2 * d.c as u64 * outputs,
            Op::Pool(p) => p.taps() as u64 * outputs,
            Op::Norm(_) => 8 * outputs,
            Op::LeakyRelu(_) | Op::Tanh(_) | Op::Dropout(_) => outputs,
            Op::Flatten(_) => 0,
        }
    }

    /// Floating-point operations of the data gradient of `inputs` input elements; a strided window's taps meet each
    /// input in turn, so that the total over a tensor is the forward pass's.
    pub fn backward_data_flops(&self, inputs: u64) -> u64 {
        let strides = self.windows().iter().map(|w| w.stride as u64).product::<u64>();
        match self {
            Op::Conv(c) => 2 * (c.taps() * c.k) as u64 * inputs / strides,
            Op::Dense(d) => 2 * d.k as u64 * inputs,
            Op::Pool(p) => p.taps() as u64 * inputs / strides,
            _ => self.forward_flops(inputs),
        }
    }

    /// The layer that a rank runs, for a global input shape.
    pub fn build<T: Float>(&self, x: Shape) -> Box<dyn Layer<T>> {
        match self {
            // An input that does not fit has no outputs.
            Op::Conv(c) => Box::new(conv::ConvLayer::new(c.clone(), self.out_shape(x).unwrap_or([0; 5]))),
            Op::Pool(p) => Box::new(pool::PoolLayer::new(p.clone())),
            Op::Norm(n) => Box::new(norm::NormLayer::new(n.clone())),
            Op::LeakyRelu(a) => Box::new(activation::LeakyReluLayer::new(*a)),
            Op::Tanh(a) => Box::new(activation::TanhLayer::new(*a)),
            Op::Dropout(d) => Box::new(dropout::DropoutLayer::new(*d, x)),
            Op::Flatten(_) => Box::new(dense::FlattenLayer::new(x)),
            Op::Dense(d) => Box::new(dense::DenseLayer::new(d.clone())),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}
