//! The timed steps of a layer alone on one rank.

use crate::error::RankError;
use crate::input::{synthetic_gradient, synthetic_input};
use crate::measure::{Measured, Sample, run_steps};
use crate::network;
use crate::ranks::Watch;
use shardmark_comm::{Comm, Counted};
use shardmark_host::Team;
use shardmark_networks::Trainer;
use shardmark_plan::Case;
use shardmark_tensor::Block;

/// Runs `warmup + steps` steps of a lone layer, `repeat` times.
///
/// # Errors
/// When a rank fails.
pub fn measure(case: &Case, comm: &dyn Comm, team: &Team, watch: &Watch) -> Result<Measured, RankError> {
    let counted = Counted::new(comm);
    let plan = network::plan(case)?;
    let at = plan.grid.coords(comm.rank());
    // A margin has no value: it is exchanged in every step.
    let input = synthetic_input(&plan, &plan.layer(0).own_x(&plan.grid, &at), case.seed);
    let dy = synthetic_gradient(&plan, &plan.own_output(&at), case.seed);
    let start = || Ok(network::trainer(case, plan.clone(), &counted, team)?);
    run_steps(case, comm, &counted, watch, start, |trainer, _| Ok((timed_step(trainer, &input, &dy, comm)?, f64::NAN)))
}

/// Both passes. Ranks start together, so that the slowest rank's time is the step's.
fn timed_step(
    trainer: &mut Trainer<'_, f32>,
    input: &Block<f32>,
    dy: &Block<f32>,
    comm: &dyn Comm,
) -> Result<Sample, RankError> {
    let mut x = trainer.input_block();
    x.copy_from(input, input.region());
    let mut gradient = trainer.gradient_block();
    gradient.copy_from(dy, dy.region());
    comm.barrier()?;
    trainer.clock.reset();
    trainer.lone_step(x, gradient)?;
    Ok(Sample { io_s: 0.0, phases: trainer.clock.phases, layers: trainer.clock.layers.clone() })
}
