//! Steps from gradients of parameters to updated parameters.

use super::number::Proto;
use super::{Generator, Protos};
use shardmark_layers::Op;
use shardmark_partition::step::{CollectiveKind, Part, Pass, Stream, Work};
use shardmark_partition::{AxisSet, Shape};

impl<'a> Generator<'a> {
    /// A collective of all ranks over tensors of all samples, for which a computation waits.
    fn sample_collective(&self, i: usize, pass: Pass, kind: CollectiveKind, shape: Shape) -> Proto {
        let work = Work::Collective { group: AxisSet::ALL, kind, bytes: self.bytes(shape.iter().product()) };
        Proto { stream: Stream::Halo, ..Self::proto(i, pass, work) }
    }

    /// What a share of the parameters makes of all samples: inputs or output gradients are gathered, and what all shares make
    /// of them is summed at the samples' owners.
    pub(super) fn by_share(&self, i: usize, pass: Pass, flops: u64) -> Vec<Proto> {
        let (x, y) = (self.plan.graph.shapes[i], self.plan.graph.shapes[i + 1]);
        let ranks = self.plan.grid.size();
        let kept = self.op(i).kept_for_share(x, y, ranks)[usize::from(pass == Pass::Backward)];
        let (gathered, summed) = if pass == Pass::Forward { (x, y) } else { (y, x) };
        let mut protos = vec![
            Self::proto(i, pass, Work::Alloc { bytes: self.bytes(kept) }),
            self.sample_collective(i, pass, CollectiveKind::AllGather, gathered),
        ];
        if pass == Pass::Forward || self.plan.layer(i).needs_dx {
            let (share, both) = (self.plan.largest_share(i), x.iter().chain(&y).product::<usize>());
            let work = Work::Compute {
                kernel: self.op(i).kind(),
                shape: [1, 1, 1, 1, share],
                flops: flops.div_ceil(ranks as u64),
                bytes: self.bytes(share + both),
            };
            protos.push(Proto { waits: true, ..Self::proto(i, pass, work) });
            protos.push(self.sample_collective(i, pass, CollectiveKind::ReduceScatter, summed));
        }
        protos
    }

    /// The gradients of the own shares of divided parameters, and the updates, if they come after layer `i`.
    pub(super) fn shares(&self, i: Option<usize>) -> Protos<'a> {
        if self.plan.shares_after() != i {
            return Box::new(std::iter::empty());
        }
        let this = *self;
        let tail = self.plan.tail()..self.plan.graph.nodes.len();
        Box::new(tail.rev().filter(move |&i| this.plan.divides(i)).flat_map(move |i| this.share_of(i)))
    }

    fn share_of(self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let (x, y) = (self.plan.graph.shapes[i], self.plan.graph.shapes[i + 1]);
        let kept = self.op(i).kept_for_share(x, y, self.plan.grid.size()).map(|kept| self.bytes(kept));
        let share = self.plan.largest_share(i);
        let work = Work::Compute {
            kernel: self.op(i).kind(),
            shape: [1, 1, 1, 1, share],
            flops: 2 * y[..4].iter().product::<usize>() as u64 * share as u64,
            bytes: kept[0] + kept[1] + self.bytes(share),
        };
        let pass = Pass::Backward;
        let frees = kept.map(|bytes| Self::proto(i, pass, Work::Free { bytes }));
        std::iter::once(Self::proto(i, pass, work)).chain(frees).chain(self.step(i))
    }

    /// Parameter gradients of layer `i` from the own samples, deferred until the next halo is on its way, and their reduction.
    pub(super) fn params(&self, i: usize) -> Protos<'a> {
        if !self.sums_own(i) {
            return Box::new(std::iter::empty());
        }
        let lp = self.plan.layer(i);
        let own = lp.own_y(&self.plan.grid, &self.at);
        let params = self.plan.param_len(i);
        let work = Work::Compute {
            kernel: self.op(i).kind(),
            shape: own.shape(),
            flops: self.op(i).forward_flops(own.len() as u64),
            bytes: self.bytes(own.len() + params + lp.own_x(&self.plan.grid, &self.at).len()),
        };
        let pass = Pass::Backward;
        // Batch norm's sums are taken together with its data gradient.
        let compute = (!matches!(self.op(i), Op::Norm(_))).then(|| Self::proto(i, pass, work));
        let bucket =
            Work::Collective { group: AxisSet::ALL, kind: CollectiveKind::ReduceScatter, bytes: self.bytes(params) };
        let bucket = Proto { part: Part::Bucket(i as u32), stream: Stream::Gradient, ..Self::proto(i, pass, bucket) };
        Box::new(compute.into_iter().chain((!self.alone(AxisSet::ALL)).then_some(bucket)))
    }

    /// Whether there is a layer `i` with parameters whose gradients are computed from the own samples.
    fn sums_own(&self, i: usize) -> bool {
        i < self.plan.graph.nodes.len() && !self.op(i).params().is_empty() && !self.plan.divides(i)
    }

    /// [`Generator::update`] where the gradients come from the own samples.
    pub(super) fn own_update(&self, i: usize) -> Protos<'a> {
        if self.sums_own(i) { self.update(i) } else { Box::new(std::iter::empty()) }
    }

    /// The update of the own share of layer `i`'s parameters, and the gathering of all shares. A run does them once the sums
    /// are there, which may be later.
    fn update(&self, i: usize) -> Protos<'a> {
        let bytes = self.bytes(self.plan.param_len(i));
        let gather = Work::Collective { group: AxisSet::ALL, kind: CollectiveKind::AllGather, bytes };
        let part = Part::Bucket(i as u32);
        let gather = Proto { part, stream: Stream::Gradient, ..Self::proto(i, Pass::Update, gather) };
        Box::new(self.step(i).chain((!self.alone(AxisSet::ALL)).then_some(gather)))
    }

    /// The optimizer's step on the own share of layer `i`'s parameters; a layer alone learns nothing.
    fn step(&self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let share = self.plan.largest_share(i);
        let work = Work::Compute {
            kernel: "optimizer",
            shape: [1, 1, 1, 1, share],
            flops: share as u64 * (2 + 5 * self.options.optimizer_state),
            bytes: self.bytes(share * (3 + 2 * self.options.optimizer_state as usize)),
        };
        let learns = self.plan.graph.lone.is_none();
        learns.then(|| Proto { bucket: true, ..Self::proto(i, Pass::Update, work) }).into_iter()
    }
}
