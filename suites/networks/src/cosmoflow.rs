//! CosmoFlow: the network of the 2020 paper and the reference network of MLPerf HPC.

use crate::graph::{Graph, GraphError, Node};
use shardmark_layers::Op;
use shardmark_layers::activation::{LeakyRelu, Tanh};
use shardmark_layers::conv::{Algorithm, Conv};
use shardmark_layers::dense::{Dense, Flatten};
use shardmark_layers::dropout::Dropout;
use shardmark_layers::norm::BatchNorm;
use shardmark_layers::pool::{Pool, PoolMode};
use shardmark_partition::{AxisSet, Window};

/// Which CosmoFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Oyama et al. 2020 (arXiv 2007.12856) as released with the paper: seven convolutions 3^3 without bias, the fourth
    /// with stride 2, average pools 3/2/1, three fully connected layers with dropout before each.
    Paper2020,
    /// The MLPerf HPC reference code: five convolutions 2^3 with bias and "same" padding (0 before, 1 after), max
    /// pools 2/2, fully connected 128, 64, 4, and 1.2 tanh at the end.
    MlPerf,
}

/// A CosmoFlow network.
#[derive(Clone, Debug, PartialEq)]
pub struct Cosmoflow {
    /// Which network.
    pub variant: Variant,
    /// Samples of one step, over all ranks.
    pub batch: usize,
    /// Extents D, H, W of the input.
    pub volume: [usize; 3],
    /// Input channels (redshifts).
    pub channels: usize,
    /// Batch norm after each convolution, with statistics over the ranks of these axes.
    pub norm: Option<AxisSet>,
    /// Fraction that dropout drops; `None` is the network's own (0.2, MLPerf 0.5), 0 leaves the layers out.
    pub dropout: Option<f64>,
    /// Layer at which spatial splitting ends; the default is the published one (`pool5`) or `flatten`, or an earlier one on
    /// grids where parameters below it are worth dividing.
    pub tail: Option<String>,
}

/// Number of cosmological parameters that are predicted.
pub const TARGETS: usize = 4;

impl Cosmoflow {
    /// The network as a graph.
    ///
    /// # Errors
    /// When the volume is too small for a layer or no layer is called `tail`.
    pub fn graph(&self) -> Result<Graph, GraphError> {
        let [d, h, w] = self.volume;
        let input = [self.batch, d, h, w, self.channels];
        let (name, mut nodes, tail) = match self.variant {
            Variant::Paper2020 => ("cosmoflow-2020", self.paper_2020(), "pool5"),
            Variant::MlPerf => ("cosmoflow-mlperf", self.mlperf(), "flatten"),
        };
        // The width of the first fully connected layer follows from the volume.
        let flat = Graph::chain(name, input, nodes.clone(), None)?.output()[4];
        nodes.extend(match self.variant {
            Variant::Paper2020 => self.paper_2020_head(flat),
            Variant::MlPerf => self.mlperf_head(flat),
        });
        let graph = Graph::chain(name, input, nodes, Some(self.tail.as_deref().unwrap_or(tail)))?;
        Ok(Graph { tail_moves: self.tail.is_none(), ..graph })
    }

    fn block(&self, nodes: &mut Vec<Node>, i: usize, conv: Conv, slope: f64) {
        let k = conv.k;
        nodes.push(node(format!("conv{i}"), Op::Conv(conv)));
        if let Some(group) = self.norm {
            // LBANN's decay of 0.999 is a momentum of 0.001 in PyTorch's sense.
            nodes.push(node(format!("bn{i}"), Op::Norm(BatchNorm { channels: k, eps: 1e-5, momentum: 0.001, group })));
        }
        nodes.push(node(format!("act{i}"), Op::LeakyRelu(LeakyRelu { slope })));
    }

    fn dropout_layer(&self, nodes: &mut Vec<Node>, i: usize, own: f64) {
        let dropped = self.dropout.unwrap_or(own);
        if dropped > 0.0 {
            nodes.push(node(format!("drop{i}"), Op::Dropout(Dropout { keep: 1.0 - dropped })));
        }
    }

    fn paper_2020(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        let widest = self.volume[0].max(self.volume[1]).max(self.volume[2]);
        let mut c = self.channels;
        for (i, k) in (1..).zip([16, 32, 64, 128, 256, 256, 256]) {
            let stride = if i == 4 { 2 } else { 1 };
            self.block(&mut nodes, i, Conv::cube(c, k, 3, stride, 1, false), 0.01);
            let pooled = i <= 5 || (i == 6 && widest >= 256) || (i == 7 && widest >= 512);
            if pooled {
                let pool = Pool { mode: PoolMode::Average, windows: [Window::new(3, 2, 1); 3] };
                nodes.push(node(format!("pool{i}"), Op::Pool(pool)));
            }
            c = k;
        }
        nodes.push(node("flatten".into(), Op::Flatten(Flatten)));
        nodes
    }

    fn paper_2020_head(&self, flat: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut c = flat;
        for (i, k) in (1..).zip([2048, 256, TARGETS]) {
            self.dropout_layer(&mut nodes, i, 0.2);
            nodes.push(node(format!("fc{i}"), Op::Dense(Dense { c, k, bias: true, bias_init: 0.1 })));
            if i < 3 {
                nodes.push(node(format!("fc_act{i}"), Op::LeakyRelu(LeakyRelu { slope: 0.01 })));
            }
            c = k;
        }
        nodes
    }

    fn mlperf(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut c = self.channels;
        let same = Window { kernel: 2, stride: 1, pad: 0, pad_after: 1 };
        for (i, k) in (1..).zip([32, 64, 128, 256, 512]) {
            self.block(&mut nodes, i, Conv { c, k, windows: [same; 3], bias: true, algorithm: Algorithm::Auto }, 0.3);
            let pool = Pool { mode: PoolMode::Max, windows: [Window::new(2, 2, 0); 3] };
            nodes.push(node(format!("pool{i}"), Op::Pool(pool)));
            c = k;
        }
        nodes.push(node("flatten".into(), Op::Flatten(Flatten)));
        nodes
    }

    fn mlperf_head(&self, flat: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut c = flat;
        for (i, k) in (1..).zip([128, 64, TARGETS]) {
            nodes.push(node(format!("fc{i}"), Op::Dense(Dense { c, k, bias: true, bias_init: 0.0 })));
            if i < 3 {
                nodes.push(node(format!("fc_act{i}"), Op::LeakyRelu(LeakyRelu { slope: 0.3 })));
                self.dropout_layer(&mut nodes, i, 0.5);
            }
            c = k;
        }
        nodes.push(node("tanh".into(), Op::Tanh(Tanh { scale: 1.2 })));
        nodes
    }
}

fn node(name: String, op: Op) -> Node {
    Node { name, op }
}
