//! A network as a chain of named layers with shapes, and where its spatial splitting ends.

use shardmark_layers::conv::Algorithm;
use shardmark_layers::{Op, ParamSpec, SpecError};
use shardmark_partition::Shape;

/// A named layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name, unique in the network: `conv1`.
    pub name: String,
    /// The layer.
    pub op: Op,
}

/// A chain of layers, shape-only; tensor 0 is the input, tensor `i + 1` the output of node `i`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Name of the network.
    pub name: String,
    /// Layers in forward order.
    pub nodes: Vec<Node>,
    /// Shapes of tensors: one more than layers. The batch is the global one.
    pub shapes: Vec<Shape>,
    /// Layers from this one on work on whole samples.
    pub tail: usize,
    /// Whether it may begin at an earlier layer on grids where that is faster ([`NetPlan`](crate::NetPlan)).
    pub tail_moves: bool,
    /// Whether it is a layer taken out of a network.
    pub lone: Option<Lone>,
}

/// A layer out of a network: neighbours that are not there would bring its input without a halo and its output's
/// gradient, and nothing is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lone {
    /// Whether there would be a layer below, which wants the input's gradient.
    pub input_gradient: bool,
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// A layer does not fit.
    #[error("layer {name}: {source}")]
    Layer {
        /// Name of the layer.
        name: String,
        /// What is wrong.
        source: SpecError,
    },
    /// No such layer to end spatial splitting at.
    #[error("tail: expected the name of a layer up to '{last}', got '{got}'; one of {names}")]
    Tail {
        /// Name asked for.
        got: String,
        /// Last layer at which splitting may end.
        last: String,
        /// Layers to choose from.
        names: String,
    },
    /// The batch or the input has no element.
    #[error("input: expected at least one sample and one voxel a side, got {0:?}; use positive extents")]
    Empty(Shape),
}

impl Graph {
    /// Chains `nodes` on an input of `shape`; spatial splitting ends at the layer named `tail`, by default at the first
    /// layer that needs whole samples.
    ///
    /// # Errors
    /// When a layer does not fit its input or no layer is called `tail`.
    pub fn chain(name: &str, shape: Shape, nodes: Vec<Node>, tail: Option<&str>) -> Result<Self, GraphError> {
        if shape.contains(&0) {
            return Err(GraphError::Empty(shape));
        }
        let mut shapes = vec![shape];
        for node in &nodes {
            let x = shapes[shapes.len() - 1];
            let y = node.op.out_shape(x).map_err(|source| GraphError::Layer { name: node.name.clone(), source })?;
            shapes.push(y);
        }
        let last = nodes.iter().position(|n| n.op.whole_samples()).unwrap_or(nodes.len());
        let tail = match tail {
            None | Some("flatten") => last,
            Some(wanted) => nodes[..last].iter().position(|n| n.name == wanted).ok_or_else(|| GraphError::Tail {
                got: wanted.to_string(),
                last: nodes.get(last).map_or("the end", |n| &n.name).to_string(),
                names: nodes[..last].iter().map(|n| n.name.as_str()).chain(["flatten"]).collect::<Vec<_>>().join(", "),
            })?,
        };
        Ok(Graph { name: name.to_string(), nodes, shapes, tail, tail_moves: false, lone: None })
    }

    /// One layer on an input of `shape`.
    ///
    /// # Errors
    /// When the layer does not fit the input.
    pub fn layer(op: Op, shape: Shape, input_gradient: bool) -> Result<Self, GraphError> {
        let name = op.kind().to_string();
        let graph = Graph::chain(&name, shape, vec![Node { name: name.clone(), op }], None)?;
        Ok(Graph { lone: Some(Lone { input_gradient }), ..graph })
    }

    /// The same with every convolution computed so.
    pub fn with_convolutions(mut self, algorithm: Algorithm) -> Self {
        for node in &mut self.nodes {
            if let Op::Conv(conv) = &mut node.op {
                conv.algorithm = algorithm;
            }
        }
        self
    }

    /// Shape of the input.
    pub fn input(&self) -> Shape {
        self.shapes[0]
    }

    /// Shape of the prediction.
    pub fn output(&self) -> Shape {
        self.shapes[self.nodes.len()]
    }

    /// Every parameter: layer index, index within the layer, full name, spec.
    pub fn params(&self) -> impl Iterator<Item = (usize, usize, String, ParamSpec)> {
        self.nodes.iter().enumerate().flat_map(|(i, node)| {
            node.op.params().into_iter().enumerate().map(move |(j, spec)| {
                let name = format!("{}.{}", node.name, spec.name);
                (i, j, name, spec)
            })
        })
    }

    /// Number of trained values.
    pub fn param_count(&self) -> u64 {
        self.params().map(|(_, _, _, spec)| spec.len() as u64).sum()
    }
}
