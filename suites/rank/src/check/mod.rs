//! Whether a run on a grid gives the serial result: before a case is timed, and for every grid of the check suite.
//!
//! The yardstick is the serial run itself: the same network on one rank in f32 is some way from the same network in
//! f64. How far is seen from three runs, whose inputs differ by an ulp here and there. A grid may be [`OWN_ERRORS`]
//! times as far from the f64 run, plus [`ULPS`] roundings of a tensor's largest value, in the largest error and in the
//! L2 norm.

mod command;
mod compare;
mod lone;
mod nets;
mod oracle;

pub use command::command;
pub use oracle::Oracle;

use crate::bare::Bare;
use crate::error::RankError;
use crate::network;
use crate::ranks::Watch;
use compare::Comparison;
use oracle::{Subject, run};
use shardmark_comm::Comm;
use shardmark_host::Team;
use shardmark_networks::NetPlan;
use shardmark_partition::{Dim, Grid};
use shardmark_plan::Case;
use shardmark_plan::value::{Check, Norm, Workload};
use shardmark_store::Check as Verdict;

/// Multiple of the serial run's own error that a grid may have.
pub const OWN_ERRORS: f64 = 4.0;
/// Roundings of a tensor's largest value that it may have beside that.
pub const ULPS: f64 = 16.0;
/// The same for weights after some steps: Adam divides small gradients by their own size, and their rounding with them,
/// so that single weights scatter more than any one run shows.
pub const ULPS_AFTER_STEPS: f64 = 256.0;

/// Voxels a side of a quick check.
const SMALL: usize = 32;

/// Seconds that ranks may wait while rank 0 makes the serial run.
const SERIAL_RUN_S: f64 = 3600.0;

/// What is compared for a case: its own network or layer, for a quick check with the volume cut down to 32 voxels a side.
fn subject(case: &Case) -> Result<Subject, RankError> {
    let small = small(case)?;
    let graph = network::graph(&small)?;
    let steps = if case.check == Check::Full && case.norm == Norm::None { 3 } else { 0 };
    Ok(Subject {
        name: graph.name.clone(),
        graph,
        optimizers: vec![network::optimizer(case)],
        loss: network::loss(case),
        steps,
        init: network::init(case),
        seed: case.seed,
    })
}

/// The case itself, or a smaller one for a quick check.
fn small(case: &Case) -> Result<Case, RankError> {
    let mut small = case.clone();
    if case.check != Check::Quick {
        return Ok(small);
    }
    small.width.0 = small.width.0.map(|extent| extent.min(SMALL));
    small.batch = small.batch.min(2 * case.grid.parts(Dim::N));
    if let Some(mut line) = case.layer()? {
        // As many samples as there are for a layer that shares them among all ranks.
        line.x[Dim::N as usize] = line.x[0].min(2 * if line.dims == 0 { case.ranks } else { case.grid.parts(Dim::N) });
        small.batch = line.x[0];
        let whole = line.x;
        for extent in &mut line.x[1..4] {
            *extent = (*extent).min(SMALL);
        }
        if line.output().contains(&0) {
            line.x = whole;
        }
        small.workload = Workload::Layer(line.to_string().replacen(&format!(" n={}", line.x[0]), "", 1));
    }
    Ok(small)
}

/// Whether the statistics of batch norm are those of the serial network.
fn same_statistics(case: &Case) -> bool {
    matches!(case.norm, Norm::None | Norm::Global)
}

impl Oracle {
    /// The serial runs that a case is compared with.
    ///
    /// # Errors
    /// When the network does not fit the volume.
    pub fn of_case(case: &Case) -> Result<Oracle, RankError> {
        Oracle::of(&subject(case)?)
    }
}

/// Compares a case's grid with the serial run, which rank 0 makes unless it is given. With batch norm over fewer than
/// all ranks the serial network is another one; then the f64 run of the same grid is the yardstick. Collective; the
/// verdict is equal on all ranks.
///
/// # Errors
/// When a rank fails.
pub fn of_case(
    case: &Case,
    oracle: Option<&Oracle>,
    comm: &dyn Comm,
    team: &Team,
    watch: &Watch,
) -> Result<Verdict, RankError> {
    if let Some(bare) = Bare::of(case)? {
        return bare.check(comm);
    }
    let subject = subject(case)?;
    let grid = case.grid;
    watch.allow(SERIAL_RUN_S);
    if !same_statistics(case) {
        let oracle = Oracle::on_grid(&subject, grid, comm)?;
        return on_grid(&subject, Some(&oracle), grid, comm, team);
    }
    if oracle.is_some() || comm.rank() != 0 {
        return on_grid(&subject, oracle, grid, comm, team);
    }
    on_grid(&subject, Some(&Oracle::of(&subject)?), grid, comm, team)
}

/// Runs a subject on a grid and compares on rank 0, the only one that needs the oracle. Collective.
fn on_grid(
    subject: &Subject,
    oracle: Option<&Oracle>,
    grid: Grid,
    comm: &dyn Comm,
    team: &Team,
) -> Result<Verdict, RankError> {
    let plan = NetPlan::new(subject.graph.clone(), grid);
    let mut comparison = Comparison::default();
    for (i, optimizer) in subject.optimizers.iter().enumerate() {
        let result = run::<f32>(comm, team, &plan, *optimizer, subject)?;
        if let Some(oracle) = oracle.filter(|_| comm.rank() == 0) {
            comparison.add(&result, &oracle.runs[i]);
        }
    }
    share(comm, comparison.verdict())
}

/// Gives all ranks the verdict of rank 0.
fn share(comm: &dyn Comm, verdict: Verdict) -> Result<Verdict, RankError> {
    use shardmark_comm::CommExt;
    let own = vec![f64::from(u8::from(verdict.passed)), verdict.used];
    let shared = comm.broadcast_vec(0, own)?;
    Ok(Verdict { passed: shared[0] == 1.0, used: shared[1], text: verdict.text })
}
