//! One case from its line to its record: check, then measure or train, then write.

use crate::bare::Bare;
use crate::error::RankError;
use crate::measure::{Measured, measure};
use crate::ranks::{Rank, Watch};
use crate::train::train;
use crate::{check, lone, network, ranks, record};
use shardmark_comm::{Comm, agree};
use shardmark_host::{Memory, Team};
use shardmark_plan::exit::RankExit;
use shardmark_plan::value::{Check, Transport, Workload};
use shardmark_plan::{Case, Context, Event};
use shardmark_store::Record;
use std::path::Path;

/// Runs a case and writes its record.
pub fn run(case: &Case, record: &Path, context: &Context) -> RankExit {
    let oracle = match prepare(case) {
        Ok(oracle) => oracle,
        Err(error) => {
            let exit = if matches!(error, RankError::WontFit(_)) { RankExit::WontFit } else { RankExit::Failed };
            eprintln!("{error}");
            Event::Failed { rank: 0, message: error.to_string() }.emit();
            return exit;
        }
    };
    let ended = ranks::run(case.transport, case.ranks, case.hang_limit, |rank| {
        on_rank(case, record, context, oracle.as_ref(), rank)
    });
    match ended {
        Ok(true) => RankExit::Ok,
        Ok(false) => RankExit::Wrong,
        Err(exit) => exit,
    }
}

/// What is done before any rank starts: whether the case fits, and, with threads, the serial run that it is compared
/// with.
fn prepare(case: &Case) -> Result<Option<check::Oracle>, RankError> {
    fits(case)?;
    let early = case.check != Check::None && case.transport == Transport::Threads;
    let early = early && Bare::of(case)?.is_none();
    if early { Ok(Some(check::Oracle::of_case(case)?)) } else { Ok(None) }
}

/// Refuses a case whose tensors, by the plan, the memory of this host cannot hold. What
/// [`shardmark_plan::event::Memory::UNCOUNTED`] names comes on top: a case that is not refused can run out of memory all
/// the same.
fn fits(case: &Case) -> Result<(), RankError> {
    let here = match case.transport {
        Transport::Threads => case.ranks,
        // Launchers say how many of their ranks run on this host; without a word, all of them.
        Transport::Mpi => ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"]
            .iter()
            .find_map(|name| std::env::var(name).ok()?.parse().ok())
            .unwrap_or(case.ranks),
    };
    let mut needs = network::memory(case)?;
    needs.sort_unstable_by(|a, b| b.cmp(a));
    Memory::here().holds(needs.iter().take(here).sum()).map_err(RankError::WontFit)
}

/// The whole case on one rank; gives whether the check passed.
fn on_rank(
    case: &Case,
    path: &Path,
    context: &Context,
    oracle: Option<&check::Oracle>,
    Rank { comm, watch, mpi }: Rank<'_>,
) -> Result<bool, RankError> {
    let team = agree(comm, Team::new(case.threads_per_rank))?;
    let verdict = match case.check {
        Check::None => None,
        _ => Some(check::of_case(case, oracle, comm, &team, watch)?),
    };
    if let (0, Some(verdict)) = (comm.rank(), &verdict) {
        Event::Check { passed: verdict.passed, used: verdict.used, message: verdict.text.clone() }.emit();
    }
    let measured = run_timed(case, comm, &team, watch)?;
    let passed = verdict.as_ref().is_none_or(|v| v.passed);
    let gathered = record::gather(case, &measured, comm)?;
    let written = match gathered {
        Some(gathered) => {
            let mut record: Record = record::build(case, context, verdict, measured, gathered);
            if let Some(library) = mpi {
                record.provenance.insert("mpi".into(), library.into());
            }
            record.write(path).map_err(RankError::from)
        }
        None => Ok(()),
    };
    agree(comm, written)?;
    if comm.rank() == 0 {
        Event::Done { record: path.to_string_lossy().into_owned() }.emit();
    }
    Ok(passed)
}

/// What the workload asks for.
fn run_timed(case: &Case, comm: &dyn Comm, team: &Team, watch: &Watch) -> Result<Measured, RankError> {
    if let Some(bare) = Bare::of(case)? {
        return bare.measure(case, comm, watch);
    }
    match case.workload {
        Workload::Layer(_) => lone::measure(case, comm, team, watch),
        _ if case.epochs > 0 => train(case, comm, team, watch),
        _ => measure(case, comm, team, watch),
    }
}
