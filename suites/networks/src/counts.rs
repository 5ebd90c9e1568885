//! The Steps of a rank as the counts that a counting communicator would give.

use crate::plan::NetPlan;
use crate::steps::StepOptions;
use shardmark_comm::{Collective, Counts, Direction};
use shardmark_partition::step::{CollectiveKind, Work};

impl NetPlan {
    /// Messages and collectives that a training step of `rank` makes, input aside: what
    /// [`Counted`](shardmark_comm::Counted) counts between the start and the end of a step.
    pub fn expected_counts(&self, rank: usize, options: StepOptions) -> Counts {
        let mut counts = Counts::default();
        for step in self.steps(rank, options) {
            match step.work {
                Work::Send { peer, key, bytes } => counts.record_message(Direction::Send, peer, key, bytes),
                Work::Recv { peer, key, bytes } => counts.record_message(Direction::Recv, peer, key, bytes),
                Work::Collective { group, kind, bytes } => {
                    let kind = match kind {
                        CollectiveKind::AllReduce => Collective::Allreduce,
                        CollectiveKind::TreeAllReduce => Collective::TreeAllreduce,
                        CollectiveKind::ReduceScatter => Collective::ReduceScatter,
                        CollectiveKind::AllGather => Collective::Allgatherv,
                    };
                    counts.record_collective(kind, group.parts(&self.grid), bytes);
                }
                _ => {}
            }
        }
        counts
    }
}
