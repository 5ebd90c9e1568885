//! From Steps as layers name them to numbered ones with their dependencies.

use shardmark_partition::step::{Part, Pass, Step, StepId, Stream, Work};
use std::ops::Range;

/// A Step before it is numbered.
pub(super) struct Proto {
    pub layer: usize,
    pub pass: Pass,
    pub part: Part,
    pub stream: Stream,
    pub work: Work,
    /// Waits for the receives since the last waiting computation.
    pub waits: bool,
    /// Waits for the reduction of this layer's gradients.
    pub bucket: bool,
}

/// Gives numbers, and turns "waits for" into numbers of Steps.
pub(super) fn number(protos: impl Iterator<Item = Proto>, layers: usize) -> impl Iterator<Item = Step> {
    let mut next: StepId = 0;
    let mut compute: Option<StepId> = None;
    let mut collective: Option<StepId> = None;
    let mut recvs: Vec<Range<StepId>> = Vec::new();
    let mut buckets: Vec<Option<StepId>> = vec![None; layers];
    protos.map(move |proto| {
        let id = next;
        next += 1;
        let one = |id: StepId| id..id + 1;
        let mut after: Vec<Range<StepId>> = Vec::new();
        match proto.work {
            Work::Recv { .. } => match recvs.last_mut() {
                Some(range) if range.end == id => range.end += 1,
                _ => recvs.push(one(id)),
            },
            Work::Compute { .. } => {
                after.extend(compute.map(one));
                after.extend(collective.take().map(one));
                if proto.waits {
                    after.append(&mut recvs);
                }
                if proto.bucket {
                    after.extend(buckets[proto.layer].map(one));
                }
                compute = Some(id);
            }
            Work::Collective { .. } => {
                after.extend(compute.map(one));
                match proto.stream {
                    Stream::Gradient => buckets[proto.layer] = Some(id),
                    _ => collective = Some(id),
                }
            }
            _ => after.extend(compute.map(one)),
        }
        let Proto { layer, pass, part, stream, work, .. } = proto;
        Step { id, layer, pass, part, stream, after, work }
    })
}
