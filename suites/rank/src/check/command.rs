//! `shardmark-rank check`: every network of the suite on every grid of the given rank counts.

use super::oracle::{Oracle, Subject, run};
use super::{Comparison, SERIAL_RUN_S, nets, share};
use crate::error::RankError;
use crate::ranks::{self, Rank, Watch};
use shardmark_comm::{Comm, Counts, Direction, agree};
use shardmark_host::SOLO;
use shardmark_networks::{NetPlan, StepOptions};
use shardmark_partition::Grid;
use shardmark_plan::Event;
use shardmark_plan::exit::RankExit;
use shardmark_plan::value::{Setting, Transport};
use shardmark_store::Check as Verdict;

/// Checks all grids of `counts` ranks, and tells each verdict as an event. Networks whose name does not contain `only`
/// are left out.
pub fn command(counts: &[usize], transport: Transport, only: &str) -> RankExit {
    let subjects = match nets::subjects() {
        Ok(all) => all.into_iter().filter(|s| s.name.contains(only)).collect::<Vec<_>>(),
        Err(error) => {
            eprintln!("{error}");
            return RankExit::Failed;
        }
    };
    let mut exit = RankExit::Ok;
    for subject in &subjects {
        let passed = match transport {
            Transport::Threads => on_threads(subject, counts),
            Transport::Mpi => on_mpi(&subjects, counts),
        };
        match passed {
            Ok(true) => {}
            Ok(false) => exit = RankExit::Wrong,
            Err(failed) => return failed,
        }
        if transport == Transport::Mpi {
            // MPI starts once a process: all networks were checked.
            break;
        }
    }
    exit
}

fn on_threads(subject: &Subject, counts: &[usize]) -> Result<bool, RankExit> {
    let oracle = Oracle::of(subject).map_err(|error| {
        eprintln!("{error}");
        RankExit::Failed
    })?;
    let mut passed = true;
    for grid in counts.iter().flat_map(|&ranks| Grid::factorisations(ranks)) {
        passed &= ranks::run(Transport::Threads, grid.size(), Setting::Auto, |Rank { comm, watch, .. }| {
            check_grid(subject, Some(&oracle), grid, comm, watch)
        })?;
    }
    Ok(passed)
}

fn on_mpi(subjects: &[Subject], counts: &[usize]) -> Result<bool, RankExit> {
    let ranks = counts.first().copied().unwrap_or(1);
    ranks::run(Transport::Mpi, ranks, Setting::Auto, |Rank { comm, watch, .. }| {
        let mut passed = true;
        for subject in subjects {
            watch.allow(SERIAL_RUN_S);
            let oracle = if comm.rank() == 0 { Some(Oracle::of(subject)) } else { None };
            let oracle = agree(comm, oracle.transpose())?;
            for grid in Grid::factorisations(comm.size()) {
                passed &= check_grid(subject, oracle.as_ref(), grid, comm, watch)?;
            }
        }
        Ok(passed)
    })
}

/// One network on one grid: tensors against the serial run, counted messages against the Steps. Collective.
fn check_grid(
    subject: &Subject,
    oracle: Option<&Oracle>,
    grid: Grid,
    comm: &dyn Comm,
    watch: &Watch,
) -> Result<bool, RankError> {
    watch.allow(SERIAL_RUN_S);
    let plan = NetPlan::new(subject.graph.clone(), grid);
    let mut comparison = Comparison::default();
    for (i, optimizer) in subject.optimizers.iter().enumerate() {
        let result = run::<f32>(comm, &SOLO, &plan, *optimizer, subject)?;
        let foreseen = plan.expected_counts(comm.rank(), StepOptions::default());
        let counted = if result.counts == foreseen { Ok(()) } else { Err(differ(&result.counts, &foreseen)) };
        if let Some(failure) = comm.first_failure(counted.as_ref().err().map(String::as_str))? {
            comparison.fail(format!("rank {}: {}", failure.rank, failure.message));
        }
        if let Some(oracle) = oracle.filter(|_| comm.rank() == 0) {
            comparison.add(&result, &oracle.runs[i]);
        }
    }
    let Verdict { passed, used, text } = share(comm, comparison.verdict())?;
    if comm.rank() == 0 {
        let message = format!("{} on {grid} ({}): {text}", subject.name, comm.name());
        Event::Check { passed, used, message }.emit();
    }
    Ok(passed)
}

fn differ(got: &Counts, expected: &Counts) -> String {
    let totals = |counts: &Counts| {
        let [sent, received] = [Direction::Send, Direction::Recv].map(|direction| counts.total(direction));
        format!("{} messages of {} bytes sent and {} received", sent.count, sent.bytes, received.bytes)
    };
    format!("messages: expected those of the Steps ({}), got {}", totals(expected), totals(got))
}
