//! Communication alone: an allreduce, or the exchange of a halo, checked and timed like a training step.

use crate::error::RankError;
use crate::measure::{Measured, Sample, run_steps};
use crate::ranks::Watch;
use shardmark_comm::{Comm, CommExt, Counted, ReduceOp, agree};
use shardmark_networks::{HaloExchange, Phases};
use shardmark_partition::{Coords, Grid, Region, Shape};
use shardmark_plan::Case;
use shardmark_plan::value::Workload;
use shardmark_store::Check as Verdict;
use shardmark_tensor::Block;
use std::time::Instant;

/// What is communicated.
#[derive(Clone, Debug)]
pub enum Bare {
    /// The sum of one f32 vector a rank.
    Allreduce {
        /// Its length.
        len: usize,
    },
    /// The sides of a volume.
    Halo {
        /// Extents `[N, D, H, W, C]` of the volume.
        shape: Shape,
        /// The ranks.
        grid: Grid,
        /// The exchange.
        exchange: Box<HaloExchange>,
    },
}

/// What a rank sends and receives into.
enum Buffers {
    Vector { source: Vec<f32>, sum: Vec<f32> },
    Volume(Block<f32>),
}

impl Bare {
    /// The communication of a case; `None` for other workloads.
    ///
    /// # Errors
    /// A payload that this machine cannot address.
    pub fn of(case: &Case) -> Result<Option<Bare>, RankError> {
        Ok(match case.workload {
            Workload::Allreduce => {
                let len = usize::try_from(case.bytes.0 / size_of::<f32>() as u64).map_err(|_| {
                    RankError::Other("bytes: expected what fits into memory, got more; lower it".into())
                })?;
                Some(Bare::Allreduce { len })
            }
            Workload::Halo => {
                let [d, h, w] = case.width.0;
                let shape = [case.batch, d, h, w, case.channels];
                Some(Bare::Halo { shape, grid: case.grid, exchange: Box::new(HaloExchange::new(shape, case.grid)) })
            }
            Workload::Cosmoflow | Workload::Layer(_) => None,
        })
    }

    /// Bytes that a rank needs at once: buffers, and messages under way.
    pub fn memory(&self, rank: usize) -> u64 {
        match self {
            // The payload, its sum, and what the algorithm sends and receives.
            Bare::Allreduce { len } => (4 * len * size_of::<f32>()) as u64,
            Bare::Halo { grid, exchange, .. } => {
                let at = grid.coords(rank);
                (exchange.block(&at).len() * size_of::<f32>()) as u64 + 2 * exchange.sent_bytes::<f32>(&at)
            }
        }
    }

    /// Communicates once and compares every value with what it has to be, exactly. Collective; the verdict is equal on
    /// all ranks.
    ///
    /// # Errors
    /// When communication fails.
    pub fn check(&self, comm: &dyn Comm) -> Result<Verdict, RankError> {
        let mut buffers = self.buffers(comm);
        self.communicate(comm, &mut buffers)?;
        let wrong = match (self, &buffers) {
            (Bare::Halo { shape, .. }, Buffers::Volume(block)) => {
                let inside = block.region().intersect(&Region::full(*shape));
                let expected = Block::from_fn(inside, |at| voxel(shape, at));
                differing(&block.pack(&inside), expected.data())
            }
            (_, Buffers::Vector { sum, .. }) => {
                let all = (0..sum.len()).map(|i| (0..comm.size()).map(|rank| element(rank, i)).sum());
                differing(sum, &all.collect::<Vec<f32>>())
            }
            _ => 0,
        };
        let total = comm.allreduce_value(wrong as f64, ReduceOp::Sum)?;
        let text = if total == 0.0 {
            "every value that arrived is the one that was sent".to_string()
        } else {
            format!("expected every value as it was sent, got {total} others")
        };
        Ok(Verdict { passed: total == 0.0, used: total.min(1.0) * 2.0, text })
    }

    /// Communicates `warmup + steps` times, `repeat` times over.
    ///
    /// # Errors
    /// When communication fails.
    pub fn measure(&self, case: &Case, comm: &dyn Comm, watch: &Watch) -> Result<Measured, RankError> {
        let counted = Counted::new(comm);
        let start = || Ok(agree(comm, Ok::<_, RankError>(self.buffers(comm)))?);
        run_steps(case, comm, &counted, watch, start, |buffers, _| {
            if let Buffers::Vector { source, sum } = buffers {
                sum.copy_from_slice(source);
            }
            comm.barrier()?;
            let phases = self.communicate(&counted, buffers)?;
            Ok((Sample { io_s: 0.0, phases, layers: Vec::new() }, f64::NAN))
        })
    }

    /// Buffers of a rank at their start.
    fn buffers(&self, comm: &dyn Comm) -> Buffers {
        match self {
            Bare::Allreduce { len } => {
                let source: Vec<f32> = (0..*len).map(|i| element(comm.rank(), i)).collect();
                Buffers::Vector { sum: source.clone(), source }
            }
            Bare::Halo { shape, grid, exchange } => {
                let at: Coords = grid.coords(comm.rank());
                let own = exchange.own(&at);
                let mut block = Block::from_fn(exchange.block(&at), |_| f32::NAN);
                block.copy_from(&Block::from_fn(own, |at| voxel(shape, at)), &own);
                Buffers::Volume(block)
            }
        }
    }

    fn communicate(&self, comm: &dyn Comm, buffers: &mut Buffers) -> Result<Phases, RankError> {
        match (self, buffers) {
            (Bare::Halo { exchange, .. }, Buffers::Volume(block)) => Ok(exchange.run(comm, block)?),
            (_, Buffers::Vector { sum, .. }) => {
                let start = Instant::now();
                *sum = comm.allreduce_vec(std::mem::take(sum), ReduceOp::Sum)?;
                let seconds = start.elapsed().as_secs_f64();
                Ok(Phases { grad_total: seconds, grad_exposed: seconds, step: seconds, ..Phases::default() })
            }
            _ => Ok(Phases::default()),
        }
    }
}

/// Small integers, so that sums are exact in any order.
fn element(rank: usize, index: usize) -> f32 {
    ((index * 7 + rank * 3) % 11) as f32 - 5.0
}

/// A value that tells its place.
fn voxel(shape: &Shape, at: [i64; 5]) -> f32 {
    let index = (0..5).fold(0, |index, i| index * shape[i] as u64 + at[i] as u64);
    (index % (1 << 24)) as f32
}

fn differing(got: &[f32], expected: &[f32]) -> usize {
    got.iter().zip(expected).filter(|(got, expected)| got != expected).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardmark_comm::threads;

    fn verdicts(line: &str) -> Vec<Verdict> {
        let case = Case::parse(line).expect("a case");
        let bare = Bare::of(&case).expect("fits").expect("bare communication");
        assert_eq!((0..case.ranks).filter(|&rank| bare.memory(rank) > 0).count(), case.ranks);
        threads::run(case.ranks, &threads::Options::default(), |comm| bare.check(comm)).expect("runs")
    }

    #[test]
    fn what_arrives_is_what_was_sent() {
        for ranks in 1..=4 {
            for line in ["comm:allreduce bytes=4", "comm:allreduce bytes=4004"] {
                assert!(verdicts(&format!("{line} grid={ranks}x1x1x1")).iter().all(|v| v.passed), "{line} {ranks}");
            }
            for grid in Grid::factorisations(ranks) {
                let line = format!("comm:halo width=5x4x7 channels=3 batch=4 grid={grid}");
                assert!(verdicts(&line).iter().all(|v| v.passed), "{line}");
            }
        }
    }

    #[test]
    fn a_value_that_differs_is_counted() {
        assert_eq!(differing(&[1.0, f32::NAN, 3.0], &[1.0, 2.0, 4.0]), 2);
    }
}
