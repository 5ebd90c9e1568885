//! From the words of a case to the network, its layout and its optimizer.

use crate::bare::Bare;
use crate::error::RankError;
use shardmark_comm::{Comm, CommError, CommExt};
use shardmark_host::Team;
use shardmark_layers::conv::Algorithm;
use shardmark_layers::loss::Loss;
use shardmark_layers::norm::BatchNorm;
use shardmark_layers::optim::OptimSpec;
use shardmark_layers::{Float, Op};
use shardmark_networks::{Cosmoflow, Graph, InitScheme, NetPlan, StepOptions, TrainError, Trainer, Variant};
use shardmark_partition::{AxisSet, Region, Shape};
use shardmark_plan::Case;
use shardmark_plan::value::{self, Input, Net, Norm, Optimizer, Tail, Value, Workload};
use shardmark_problem::LayerLine;
use shardmark_tensor::Block;

/// The network of a case.
pub fn cosmoflow(case: &Case) -> Cosmoflow {
    Cosmoflow {
        variant: match case.net {
            Net::Paper2020 => Variant::Paper2020,
            Net::Mlperf => Variant::MlPerf,
        },
        batch: case.batch,
        volume: case.width.0,
        channels: case.channels,
        norm: statistics(case.norm),
        dropout: case.dropout.given(),
        tail: match &case.tail {
            Tail::Auto => None,
            Tail::Layer(name) => Some(name.clone()),
        },
    }
}

/// The network of a case, or its lone layer.
///
/// # Errors
/// When the network does not fit the volume or there is neither.
pub fn graph(case: &Case) -> Result<Graph, RankError> {
    let graph = match case.layer()? {
        Some(line) => lone_layer(&line, case.norm)?,
        None if case.workload == Workload::Cosmoflow => cosmoflow(case).graph()?,
        None => {
            let text = format!("workload: expected a network or a layer, got {}; name another", case.workload.print());
            return Err(RankError::Other(text));
        }
    };
    Ok(graph.with_convolutions(match case.conv {
        value::Conv::Auto => Algorithm::Auto,
        value::Conv::Direct => Algorithm::Direct,
    }))
}

/// The layer of a line; batch norm's statistics cover all ranks unless the case says otherwise.
///
/// # Errors
/// When the layer does not fit its input.
pub fn lone_layer(line: &LayerLine, norm: Norm) -> Result<Graph, RankError> {
    let op = Op::of_line(line).ok_or_else(|| {
        RankError::Other(format!("workload: expected a layer of a network, got {}; name another", line.name()))
    })?;
    let op = match op {
        Op::Norm(spec) => Op::Norm(BatchNorm { group: statistics(norm).unwrap_or(AxisSet::ALL), ..spec }),
        other => other,
    };
    Ok(Graph::layer(op, line.x, !line.first)?)
}

/// The ranks that statistics of batch norm cover; `None` without batch norm.
fn statistics(norm: Norm) -> Option<AxisSet> {
    match norm {
        Norm::None => None,
        Norm::Local => Some(AxisSet::NONE),
        Norm::Spatial => Some(AxisSet::SPATIAL),
        Norm::Global => Some(AxisSet::ALL),
    }
}

/// The network of a case on its grid.
///
/// # Errors
/// When the network does not fit the volume.
pub fn plan(case: &Case) -> Result<NetPlan, RankError> {
    Ok(NetPlan::new(graph(case)?, case.grid))
}

/// The optimizer of a case.
pub fn optimizer(case: &Case) -> OptimSpec {
    match case.optimizer {
        Optimizer::Sgd => OptimSpec::Sgd { lr: case.lr, momentum: case.momentum, weight_decay: 0.0 },
        Optimizer::Adam => {
            OptimSpec::Adam { lr: case.lr, beta1: case.beta1, beta2: case.beta2, eps: case.eps, weight_decay: 0.0 }
        }
    }
}

/// The loss of a case.
pub fn loss(case: &Case) -> Loss {
    match case.loss {
        value::Loss::Mse => Loss::Mse,
        value::Loss::Mae => Loss::Mae,
    }
}

/// The rule for the start values of a case.
pub fn init(case: &Case) -> InitScheme {
    match case.init {
        value::Init::He => InitScheme::He,
        value::Init::Glorot => InitScheme::Glorot,
    }
}

/// A rank's replica of a case's network at its start. Collective.
///
/// # Errors
/// When the communicator's size is not the grid's, or a split fails.
pub fn trainer<'c>(
    case: &Case,
    plan: NetPlan,
    comm: &'c dyn Comm,
    team: &'c Team,
) -> Result<Trainer<'c, f32>, TrainError> {
    Trainer::new(comm, team, plan, loss(case), optimizer(case), init(case), case.seed)
}

/// What the Steps of a case depend on beside its network.
pub fn step_options(case: &Case) -> StepOptions {
    StepOptions {
        element: 4,
        optimizer_state: match case.workload {
            // Nothing is learned.
            Workload::Layer(_) => 0,
            _ => optimizer(case).state_names().len() as u64,
        },
        file_element: if case.input == Input::Synthetic { 0 } else { 4 },
    }
}

/// Most bytes of tensors that each rank holds at once by its Steps; not its whole memory, see
/// [`shardmark_plan::event::Memory::UNCOUNTED`].
///
/// # Errors
/// When the network does not fit the volume.
pub fn memory(case: &Case) -> Result<Vec<u64>, RankError> {
    if let Some(bare) = Bare::of(case)? {
        return Ok((0..case.ranks).map(|rank| bare.memory(rank)).collect());
    }
    let plan = plan(case)?;
    Ok((0..case.ranks).map(|rank| plan.peak_bytes(rank, step_options(case))).collect())
}

/// Bytes of the parameters of a case, each counted once; none in bare communication.
///
/// # Errors
/// When the network does not fit the volume.
pub fn parameter_bytes(case: &Case) -> Result<u64, RankError> {
    match Bare::of(case)? {
        Some(_) => Ok(0),
        None => Ok(graph(case)?.param_count() * size_of::<f32>() as u64),
    }
}

/// The prediction of all samples, on every rank. Collective.
///
/// # Errors
/// When communication fails.
pub fn gather_prediction<T: Float>(comm: &dyn Comm, plan: &NetPlan, own: &Block<T>) -> Result<Vec<T>, CommError> {
    gather(comm, plan.graph.output(), own, |rank| plan.own_output(&plan.grid.coords(rank)))
}

/// A tensor of which each rank owns a region, on every rank; `own` covers this rank's region at least. Collective.
///
/// # Errors
/// When communication fails.
pub fn gather<T: Float>(
    comm: &dyn Comm,
    shape: Shape,
    own: &Block<T>,
    region: impl Fn(usize) -> Region,
) -> Result<Vec<T>, CommError> {
    let regions: Vec<Region> = (0..comm.size()).map(region).collect();
    let counts: Vec<usize> = regions.iter().map(Region::len).collect();
    let all = comm.allgatherv_vec(own.pack(&regions[comm.rank()]), &counts)?;
    let mut output = Block::zeros(Region::full(shape));
    let mut at = 0;
    for (region, count) in regions.iter().zip(counts) {
        output.unpack(region, &all[at..at + count]);
        at += count;
    }
    Ok(output.data().to_vec())
}
