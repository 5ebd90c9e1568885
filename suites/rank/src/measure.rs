//! The timed steps of a case on one rank.

use crate::error::RankError;
use crate::fault::Fault;
use crate::input::Source;
use crate::network;
use crate::ranks::Watch;
use shardmark_comm::{Comm, CommExt, Counted, Counts, ReduceOp};
use shardmark_host::Team;
use shardmark_networks::{LayerSeconds, Phases, Trainer};
use shardmark_plan::{Case, Event};
use shardmark_store::Validation;
use std::time::Instant;

/// One step on this rank.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds of reading or exchanging samples.
    pub io_s: f64,
    /// Seconds by phase.
    pub phases: Phases,
    /// Seconds by layer.
    pub layers: Vec<LayerSeconds>,
}

/// What one rank measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// `[repeat][step]`, warm-up first.
    pub samples: Vec<Vec<Sample>>,
    /// Loss `[repeat][step]`, equal on all ranks.
    pub losses: Vec<Vec<f64>>,
    /// Messages of the timed steps.
    pub counts: Counts,
    /// The validation curve of a training run.
    pub validation: Option<Validation>,
}

/// Runs `warmup + steps` training steps, `repeat` times from the same start.
///
/// # Errors
/// When a rank fails or the loss is not finite.
pub fn measure(case: &Case, comm: &dyn Comm, team: &Team, watch: &Watch) -> Result<Measured, RankError> {
    let counted = Counted::new(comm);
    let plan = network::plan(case)?;
    let mut source = Source::open(case, &plan, comm)?;
    let start = || Ok(network::trainer(case, plan.clone(), &counted, team)?);
    run_steps(case, comm, &counted, watch, start, |trainer, number| timed_step(trainer, &mut source, comm, number))
}

/// Runs `warmup + steps` steps, `repeat` times from what `start` gives. `step` gets their number, counted through repeats,
/// and gives the sample and the loss (NaN if there is none); `counted` is what its communication goes through.
///
/// # Errors
/// Those of `start` and `step`.
pub fn run_steps<S>(
    case: &Case,
    comm: &dyn Comm,
    counted: &Counted<&dyn Comm>,
    watch: &Watch,
    start: impl Fn() -> Result<S, RankError>,
    mut step: impl FnMut(&mut S, usize) -> Result<(Sample, f64), RankError>,
) -> Result<Measured, RankError> {
    let fault = Fault::from_environment();
    let mut measured = Measured::default();
    let per_repeat = case.warmup + case.steps;
    if comm.rank() == 0 {
        Event::Plan { steps: case.repeat * per_repeat }.emit();
    }
    for repeat in 0..case.repeat {
        let mut state = start()?;
        let (mut samples, mut losses) = (Vec::new(), Vec::new());
        for index in 0..per_repeat {
            let number = repeat * per_repeat + index;
            if let Some(fault) = &fault {
                fault.strike(comm, number);
            }
            if index == case.warmup {
                counted.reset();
            }
            let (sample, loss) = step(&mut state, number)?;
            report_step(comm, watch, number, &sample, loss)?;
            samples.push(sample);
            losses.push(loss);
        }
        measured.counts = counted.counts();
        measured.samples.push(samples);
        measured.losses.push(losses);
    }
    Ok(measured)
}

/// Loads a batch and trains on it. Ranks start the step together, so that the slowest rank's time is the step's.
///
/// # Errors
/// When a rank fails or the loss is not finite.
pub fn timed_step(
    trainer: &mut Trainer<'_, f32>,
    source: &mut Source,
    comm: &dyn Comm,
    number: usize,
) -> Result<(Sample, f64), RankError> {
    let start = Instant::now();
    let mut input = trainer.input_block();
    let target = source.load(comm, number as u64, &mut input)?;
    let io_s = start.elapsed().as_secs_f64();
    comm.barrier()?;
    trainer.clock.reset();
    let loss = trainer.train_step(input, &target)?;
    if !loss.is_finite() {
        // The loss is equal on all ranks, so all stop here.
        return Err(RankError::Diverged { step: number, loss });
    }
    Ok((Sample { io_s, phases: trainer.clock.phases, layers: trainer.clock.layers.clone() }, loss))
}

/// Tells the supervisor and the watchdog about a step.
///
/// # Errors
/// When communication fails.
pub fn report_step(comm: &dyn Comm, watch: &Watch, number: usize, sample: &Sample, loss: f64) -> Result<(), RankError> {
    let seconds = comm.allreduce_value(sample.phases.step, ReduceOp::Max)?;
    watch.finished_step(seconds + sample.io_s);
    if comm.rank() == 0 {
        Event::Step { step: number, seconds, loss }.emit();
    }
    Ok(())
}
