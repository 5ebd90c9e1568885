//! Runs of a network for comparison: on one rank in f32 and f64, and on a grid.

use super::lone;
use crate::error::RankError;
use crate::input::{synthetic_input, synthetic_target};
use crate::network::gather_prediction;
use shardmark_comm::{Comm, Counted, Counts, solo};
use shardmark_host::{SOLO, Team};
use shardmark_layers::Float;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_networks::{Graph, InitScheme, NetPlan, Parameter, Trainer};
use shardmark_partition::Grid;
use shardmark_tensor::Block;

/// A network and what is done with it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it is called in reports.
    pub name: String,
    /// The network.
    pub graph: Graph,
    /// Optimizers; each has a run of its own.
    pub optimizers: Vec<OptimSpec>,
    /// The loss.
    pub loss: Loss,
    /// Steps after which weights are compared; 0: gradients of the first step only.
    pub steps: usize,
    /// The rule for the start values of weights.
    pub init: InitScheme,
    /// Seed of weights, input and targets.
    pub seed: u64,
}

/// Which last bit of an input's value changes, by its bits: values then lie an ulp beside where they would.
type Nudge = fn(u32) -> u32;

/// The inputs of the serial runs in f32: as it is, with half of its values nudged, with all of them.
const NUDGES: [Nudge; 3] = [|_| 0, |bits| bits >> 1 & 1, |_| 1];

/// What a run gave, as f64 and gathered from all ranks.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name and values of every tensor that is compared: `loss`, `output`, `grad <name>`, `weight <name>`.
    pub tensors: Vec<(String, Vec<f64>)>,
    /// Messages of the first step on this rank.
    pub counts: Counts,
}

/// The serial runs of a subject, for each optimizer.
pub struct Oracle {
    pub runs: Vec<Serial>,
}

/// The yardstick: a run in f64, and how far runs in f32 are from it.
pub struct Serial {
    /// In f64.
    pub exact: Outcome,
    /// In f32, each with other roundings: a single one may come close to the exact loss by chance, or to all gradients of a
    /// layer where their errors have one cause.
    pub rounded: Vec<Outcome>,
}

impl Oracle {
    /// Runs a subject on one rank.
    ///
    /// # Errors
    /// When a step fails.
    pub fn of(subject: &Subject) -> Result<Oracle, RankError> {
        Oracle::on_grid(subject, Grid::single(), &solo())
    }

    /// Runs a subject on a grid. Collective.
    ///
    /// # Errors
    /// When a step fails.
    pub fn on_grid(subject: &Subject, grid: Grid, comm: &dyn Comm) -> Result<Oracle, RankError> {
        let plan = NetPlan::new(subject.graph.clone(), grid);
        // In a layer alone no error grows.
        let nudges = if subject.graph.lone.is_some() { &NUDGES[..1] } else { &NUDGES };
        let serial = |&optimizer: &OptimSpec| {
            let rounded = |&nudge| run_nudged::<f32>(comm, &SOLO, &plan, optimizer, subject, nudge);
            Ok(Serial {
                exact: run::<f64>(comm, &SOLO, &plan, optimizer, subject)?,
                rounded: nudges.iter().map(rounded).collect::<Result<_, RankError>>()?,
            })
        };
        Ok(Oracle { runs: subject.optimizers.iter().map(serial).collect::<Result<_, RankError>>()? })
    }
}

/// One step, or as many as the subject asks for, of a network on a grid with synthetic input. Collective.
///
/// # Errors
/// When a step fails.
pub fn run<T: Float>(
    comm: &dyn Comm,
    team: &Team,
    plan: &NetPlan,
    optimizer: OptimSpec,
    subject: &Subject,
) -> Result<Outcome, RankError> {
    run_nudged::<T>(comm, team, plan, optimizer, subject, NUDGES[0])
}

fn run_nudged<T: Float>(
    comm: &dyn Comm,
    team: &Team,
    plan: &NetPlan,
    optimizer: OptimSpec,
    subject: &Subject,
    nudge: Nudge,
) -> Result<Outcome, RankError> {
    if subject.graph.lone.is_some() {
        return lone::run::<T>(comm, team, plan, subject);
    }
    let Subject { loss, steps, init, seed, .. } = *subject;
    let counted = Counted::new(comm);
    let mut trainer = Trainer::<T>::new(&counted, team, plan.clone(), loss, optimizer, init, seed)?;
    let input = convert::<T>(&nudged(synthetic_input(plan, &trainer.input_region(), seed), nudge));
    let target = convert::<T>(&synthetic_target(plan, &trainer.target_region(), seed));
    counted.reset();
    let loss = trainer.gradients(input.clone(), &target)?;
    let counts = counted.counts();
    let mut tensors = vec![("loss".into(), vec![loss])];
    let output = gather_prediction(comm, plan, trainer.prediction())?;
    tensors.push(("output".into(), output.into_iter().map(T::to_f64).collect()));
    let named = |kind: &str, name: String, values: Vec<T>| {
        (format!("{kind} {name}"), values.into_iter().map(T::to_f64).collect())
    };
    // Every rank has the same gradients and weights; rank 0 speaks for all.
    let mut tell = |trainer: &Trainer<'_, T>, kind: &str, pick: fn(Parameter<T>) -> Vec<T>| {
        for parameter in trainer.parameters() {
            let parameter = parameter?;
            if comm.rank() == 0 {
                tensors.push(named(kind, parameter.name.clone(), pick(parameter)));
            }
        }
        Ok::<_, RankError>(())
    };
    tell(&trainer, "grad", |p| p.grad)?;
    if steps > 0 {
        trainer.update()?;
        for _ in 1..steps {
            trainer.train_step(input.clone(), &target)?;
        }
        tell(&trainer, "weight", |p| p.value)?;
    }
    Ok(Outcome { tensors, counts })
}

fn nudged(mut block: Block<f32>, nudge: Nudge) -> Block<f32> {
    for value in block.data_mut().iter_mut().filter(|value| **value != 0.0) {
        let bits = value.to_bits();
        *value = f32::from_bits(bits ^ nudge(bits));
    }
    block
}

/// A block in another element type.
pub fn convert<T: Float>(block: &Block<f32>) -> Block<T> {
    Block::from_vec(*block.region(), block.data().iter().map(|&v| T::from_f64(f64::from(v))).collect())
}
