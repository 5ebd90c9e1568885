//! The cost of a network as its paper counts it, kept apart from what a run really executes (the Steps).
//!
//! Oyama et al. 2020, table 1: FLOPs of a training step are three times the forward FLOPs of the convolutions, padded
//! taps and the first layer's unused data gradient included; memory is the input (and its copy in the framework's split
//! layer), the outputs of convolutions, batch norms, activations after convolutions, pools, dropouts and fully connected
//! layers, and for each an error signal of the same size, in 4-byte numbers.

use crate::graph::Graph;
use shardmark_layers::Op;

/// Cost per sample by the paper's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperCost {
    /// Floating-point operations, forward and backward.
    pub flops: u64,
    /// Bytes of activations and error signals.
    pub bytes: u64,
    /// Trained values.
    pub params: u64,
}

/// The paper's count of a network, per sample.
pub fn paper_accounting(graph: &Graph) -> PaperCost {
    let per_sample = |i: usize| graph.shapes[i][1..].iter().product::<usize>() as u64;
    let mut flops = 0;
    let mut values = 2 * per_sample(0);
    let mut flat = false;
    for (i, node) in graph.nodes.iter().enumerate() {
        let out = per_sample(i + 1);
        match &node.op {
            Op::Conv(_) => {
                flops += 3 * node.op.forward_flops(out);
                values += out;
            }
            Op::Flatten(_) => flat = true,
            // Activations of fully connected layers work in place.
            Op::LeakyRelu(_) | Op::Tanh(_) if flat => {}
            _ => values += out,
        }
    }
    PaperCost { flops, bytes: 8 * values, params: graph.param_count() }
}
