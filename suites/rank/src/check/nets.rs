//! The networks of the check suite.

use super::oracle::Subject;
use crate::error::RankError;
use crate::network;
use shardmark_layers::Op;
use shardmark_layers::activation::LeakyRelu;
use shardmark_layers::conv::Conv;
use shardmark_layers::dense::{Dense, Flatten};
use shardmark_layers::loss::Loss;
use shardmark_layers::norm::BatchNorm;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::pool::{Pool, PoolMode};
use shardmark_networks::{Cosmoflow, Graph, InitScheme, Node, Variant};
use shardmark_partition::{AxisSet, Window};
use shardmark_plan::value::Norm;
use shardmark_problem::LayerLine;

const SGD: OptimSpec = OptimSpec::Sgd { lr: 0.01, momentum: 0.9, weight_decay: 0.0 };
/// The 2020 paper's Adam with Keras' epsilon: with PyTorch's 1e-8 it makes whole steps of gradients of 1e-10, which are
/// rounding errors.
const ADAM: OptimSpec = OptimSpec::Adam { lr: 0.001, beta1: 0.9, beta2: 0.99, eps: 1e-7, weight_decay: 0.0 };
/// With a large epsilon Adam does not turn rounding errors of tiny gradients into whole steps.
const CALM_ADAM: OptimSpec = OptimSpec::Adam { lr: 0.001, beta1: 0.9, beta2: 0.99, eps: 1e-3, weight_decay: 0.0 };

/// Both networks, with and without batch norm, and a volume that no grid divides.
///
/// # Errors
/// When a network cannot be built.
pub fn subjects() -> Result<Vec<Subject>, RankError> {
    let net =
        |variant, volume, norm| Cosmoflow { variant, batch: 2, volume, channels: 4, norm, dropout: None, tail: None };
    let subject = |name: &str, net: Cosmoflow, optimizers: &[OptimSpec], steps| {
        // After Adam's steps, MAE's gradients of one size leave many weights at the mercy of rounding.
        let loss = if net.variant == Variant::MlPerf && steps == 0 { Loss::Mae } else { Loss::Mse };
        Ok::<_, RankError>(Subject {
            name: name.into(),
            graph: net.graph()?,
            optimizers: optimizers.to_vec(),
            loss,
            steps,
            init: InitScheme::He,
            seed: 1,
        })
    };
    let global = Some(AxisSet::ALL);
    let mut subjects = vec![
        subject("2020 width 32", net(Variant::Paper2020, [32; 3], None), &[SGD, ADAM], 5)?,
        subject("2020 width 32 norm", net(Variant::Paper2020, [32; 3], global), &[SGD], 0)?,
        subject("2020 width 36x41x33", net(Variant::Paper2020, [36, 41, 33], None), &[SGD], 5)?,
        subject("mlperf width 32", net(Variant::MlPerf, [32; 3], None), &[SGD, ADAM], 5)?,
        subject("mlperf width 35x32x37 norm", net(Variant::MlPerf, [35, 32, 37], global), &[SGD], 0)?,
        Subject {
            name: "small norm".into(),
            graph: small_with_norm()?,
            optimizers: vec![SGD, CALM_ADAM],
            loss: Loss::Mse,
            steps: 5,
            init: InitScheme::He,
            seed: 1,
        },
    ];
    for line in LAYERS {
        subjects.push(lone(line)?);
    }
    Ok(subjects)
}

/// Layers alone: windows that no grid divides, a stride, the scattered gradient of a max pool, samples shared by all ranks,
/// sums over all ranks.
pub const LAYERS: [&str; 6] = [
    "conv2d n=2 c=3 k=16 in=31x29 kernel=7 stride=2 pad=3 first",
    "conv2d n=2 c=24 k=16 in=14x15 kernel=1 stride=1 pad=0",
    "conv3d n=2 c=4 k=16 in=17x12x11 kernel=3 stride=2 pad=1",
    "pool_max3d n=2 c=5 in=17x12x11 kernel=3 stride=2 pad=1",
    "dense n=9 c=40 k=24",
    "batch_norm n=2 c=5 in=8x9x10",
];

/// A layer alone.
///
/// # Errors
/// When the line is wrong.
pub fn lone(line: &str) -> Result<Subject, RankError> {
    let layer: LayerLine = line.parse().map_err(shardmark_plan::PlanError::from)?;
    Ok(Subject {
        name: format!("layer {line}"),
        graph: network::lone_layer(&layer, Norm::Global)?,
        optimizers: vec![SGD],
        loss: Loss::Mse,
        steps: 0,
        init: InitScheme::He,
        seed: 1,
    })
}

/// Three norms, each over at least 128 values a channel (6^3 x 2): training it for some steps is not chaotic.
fn small_with_norm() -> Result<Graph, RankError> {
    let node = |name: String, op| Node { name, op };
    let mut nodes = Vec::new();
    for (i, (c, k)) in (1..).zip([(4, 8), (8, 16), (16, 16)]) {
        nodes.push(node(format!("conv{i}"), Op::Conv(Conv::cube(c, k, 3, 1, 1, false))));
        let norm = BatchNorm { channels: k, eps: 1e-5, momentum: 0.1, group: AxisSet::ALL };
        nodes.push(node(format!("bn{i}"), Op::Norm(norm)));
        nodes.push(node(format!("act{i}"), Op::LeakyRelu(LeakyRelu { slope: 0.01 })));
        if i == 1 {
            let pool = Pool { mode: PoolMode::Average, windows: [Window::new(3, 2, 1); 3] };
            nodes.push(node(format!("pool{i}"), Op::Pool(pool)));
        }
    }
    nodes.push(node("flatten".into(), Op::Flatten(Flatten)));
    nodes.push(node("fc1".into(), Op::Dense(Dense { c: 16 * 216, k: 4, bias: true, bias_init: 0.1 })));
    Ok(Graph::chain("small norm", [2, 12, 12, 12, 4], nodes, None)?)
}
