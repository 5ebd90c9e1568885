//! Steps from gradients of parameters to updated parameters.

use super::number::Proto;
use super::{Generator, Protos};
use shardmark_layers::Op;
use shardmark_partition::AxisSet;
use shardmark_partition::step::{CollectiveKind, Part, Pass, Stream, Work};

impl<'a> Generator<'a> {
    /// Parameters of layer `i`.
    pub(super) fn param_len(&self, i: usize) -> usize {
        self.op(i).params().iter().map(|p| p.len()).sum()
    }

    /// The largest share of a rank in that many parameters: with it, ranks differ by their blocks only.
    pub(super) fn share(&self, params: usize) -> usize {
        params.div_ceil(self.plan.grid.size())
    }

    /// Bytes of the inputs and output gradients of layer `i` for all samples, where its gradients are summed by share.
    fn samples_bytes(&self, i: usize) -> Option<u64> {
        let samples = self.plan.graph.input()[0];
        self.plan.gathers_samples(i).then(|| self.bytes(samples * self.plan.sample_len(i)))
    }

    /// All samples of layer `i` for all ranks.
    pub(super) fn samples(&self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let protos = self.samples_bytes(i).map(|bytes| {
            let gather = Work::Collective { group: AxisSet::ALL, kind: CollectiveKind::AllGather, bytes };
            let gather = Proto { stream: Stream::Gradient, ..Self::proto(i, Pass::Backward, gather) };
            [Self::proto(i, Pass::Backward, Work::Alloc { bytes }), gather]
        });
        protos.into_iter().flatten()
    }

    /// The gradients of the own shares from gathered samples, and the updates, if they come after layer `i`.
    pub(super) fn shares(&self, i: Option<usize>) -> Protos<'a> {
        if self.plan.shares_after(&self.at) != i {
            return Box::new(std::iter::empty());
        }
        let this = *self;
        Box::new((self.plan.graph.tail..self.plan.graph.nodes.len()).rev().flat_map(move |i| this.share_of(i)))
    }

    fn share_of(self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let protos = self.samples_bytes(i).map(|held| {
            let (share, [n, d, h, w, _]) = (self.share(self.param_len(i)), self.plan.graph.shapes[i + 1]);
            let work = Work::Compute {
                kernel: self.op(i).kind(),
                shape: [1, 1, 1, 1, share],
                flops: 2 * (n * d * h * w) as u64 * share as u64,
                bytes: held + self.bytes(share),
            };
            let compute = Proto { bucket: true, ..Self::proto(i, Pass::Backward, work) };
            [compute, Self::proto(i, Pass::Backward, Work::Free { bytes: held })].into_iter().chain(self.update(i))
        });
        protos.into_iter().flatten()
    }

    /// Parameter gradients of layer `i` from the own samples, deferred until the next halo is on its way, and their reduction.
    pub(super) fn params(&self, i: usize) -> Protos<'a> {
        if !self.sums_own(i) {
            return Box::new(std::iter::empty());
        }
        let lp = self.plan.layer(i);
        let own = lp.own_y(&self.plan.grid, &self.at);
        let params = self.param_len(i);
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
        i < self.plan.graph.nodes.len() && !self.op(i).params().is_empty() && !self.plan.gathers_samples(i)
    }

    /// [`Generator::update`] where the gradients come from the own samples.
    pub(super) fn own_update(&self, i: usize) -> Protos<'a> {
        if self.sums_own(i) { self.update(i) } else { Box::new(std::iter::empty()) }
    }

    /// The update of the own share of layer `i`'s parameters, and the gathering of all shares. A run does them once the sums
    /// are there, which may be later.
    fn update(&self, i: usize) -> Protos<'a> {
        let (params, pass) = (self.param_len(i), Pass::Update);
        let share = self.share(params);
        let work = Work::Compute {
            kernel: "optimizer",
            shape: [1, 1, 1, 1, share],
            flops: share as u64 * (2 + 5 * self.options.optimizer_state),
            bytes: self.bytes(share * (3 + 2 * self.options.optimizer_state as usize)),
        };
        let compute = Proto { bucket: true, ..Self::proto(i, pass, work) };
        let gather =
            Work::Collective { group: AxisSet::ALL, kind: CollectiveKind::AllGather, bytes: self.bytes(params) };
        let gather = Proto { part: Part::Bucket(i as u32), stream: Stream::Gradient, ..Self::proto(i, pass, gather) };
        // A layer alone learns nothing, but all ranks get its gradients.
        let learns = self.plan.graph.lone.is_none();
        Box::new(learns.then_some(compute).into_iter().chain((!self.alone(AxisSet::ALL)).then_some(gather)))
    }
}
