//! The Steps of one rank for a training step, printed lazily from the layer plans: no tensor, no list of ranks.

mod gradients;
mod number;

use crate::plan::{LayerPlan, NetPlan};
use number::{Proto, number};
use shardmark_layers::Op;
use shardmark_partition::step::{CollectiveKind, Part, Pass, Step, Stream, Work};
use shardmark_partition::{AxisSet, Coords, Region, Shape, Transfer};

/// What the Steps depend on beside the network and the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// Bytes of an element.
    pub element: u64,
    /// Values that the optimizer keeps for each parameter (momentum 1, Adam 2).
    pub optimizer_state: u64,
    /// Bytes of one input value in its file; 0 when the input is synthetic.
    pub file_element: u64,
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions { element: 4, optimizer_state: 2, file_element: 0 }
    }
}

impl NetPlan {
    /// The Steps of `rank`, in the order in which its executor starts them.
    pub fn steps(&self, rank: usize, options: StepOptions) -> impl Iterator<Item = Step> + '_ {
        let at = self.grid.coords(rank);
        let generator = Generator { plan: self, at, options };
        let layers = self.graph.nodes.len();
        let protos = generator
            .input()
            .chain((0..layers).flat_map(move |i| generator.forward(i)))
            .chain(generator.loss())
            .chain((0..layers).rev().flat_map(move |i| generator.backward(i)))
            .chain(generator.params(0))
            .chain(generator.shares(None))
            .chain(generator.own_update(0));
        number(protos, layers)
    }

    /// Most bytes that a rank's Steps hold at once: parameters, optimizer state, activations and their gradients. It is
    /// not the memory of a run, which has scratch, packed weights and the program itself beside them.
    pub fn peak_bytes(&self, rank: usize, options: StepOptions) -> u64 {
        let (mut held, mut peak) = (0u64, 0u64);
        for step in self.steps(rank, options) {
            match step.work {
                Work::Alloc { bytes } => held += bytes,
                Work::Free { bytes } => held -= bytes,
                _ => {}
            }
            peak = peak.max(held);
        }
        peak
    }

    /// A number that is equal for ranks whose Steps are equal up to the names of their peers.
    pub fn class(&self, rank: usize, options: StepOptions) -> u64 {
        let at = self.grid.coords(rank);
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut eat = |text: &str| {
            for byte in text.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for mut step in self.steps(rank, options) {
            let offset = |peer: usize| {
                let theirs = self.grid.coords(peer);
                let relative: [i64; 5] = std::array::from_fn(|i| theirs[i] as i64 - at[i] as i64);
                format!("{relative:?}")
            };
            if let Work::Send { peer, .. } | Work::Recv { peer, .. } = &mut step.work {
                eat(&offset(*peer));
                *peer = 0;
            }
            eat(&format!("{step:?}"));
        }
        hash
    }
}

#[derive(Clone, Copy)]
struct Generator<'a> {
    plan: &'a NetPlan,
    at: Coords,
    options: StepOptions,
}

type Protos<'a> = Box<dyn Iterator<Item = Proto> + 'a>;

impl<'a> Generator<'a> {
    fn proto(layer: usize, pass: Pass, work: Work) -> Proto {
        Proto { layer, pass, part: Part::Whole, stream: Stream::Compute, work, waits: false, bucket: false }
    }

    fn op(&self, i: usize) -> &'a Op {
        &self.plan.graph.nodes[i].op
    }

    fn bytes(&self, values: usize) -> u64 {
        values as u64 * self.options.element
    }

    fn alone(&self, group: AxisSet) -> bool {
        group.parts(&self.plan.grid) == 1
    }

    fn messages(&self, layer: usize, pass: Pass, transfer: Transfer) -> Protos<'a> {
        let (grid, at, element) = (self.plan.grid, self.at, self.options.element);
        let make = move |work| Proto { stream: Stream::Halo, ..Self::proto(layer, pass, work) };
        let (key, bytes) = (transfer.key, move |region: Region| region.len() as u64 * element);
        let recvs = transfer.recvs(&grid, &at).map(move |(peer, r)| make(Work::Recv { peer, key, bytes: bytes(r) }));
        let sends = transfer.sends(&grid, &at).map(move |(peer, r)| make(Work::Send { peer, key, bytes: bytes(r) }));
        Box::new(recvs.chain(sends))
    }

    fn maybe_messages(&self, layer: usize, pass: Pass, transfer: Option<Transfer>) -> Protos<'a> {
        match transfer {
            Some(transfer) => self.messages(layer, pass, transfer),
            None => Box::new(std::iter::empty()),
        }
    }

    fn collectives(&self, i: usize, pass: Pass) -> impl Iterator<Item = Proto> + use<'a> {
        let this = *self;
        self.op(i).collectives(pass).into_iter().filter(move |c| !this.alone(c.group)).map(move |c| {
            let work = Work::Collective { group: c.group, kind: c.kind, bytes: c.bytes };
            Proto { stream: Stream::Halo, ..Self::proto(i, pass, work) }
        })
    }

    /// Parameters with gradient and the optimizer's state of the own shares, and the input.
    fn input(&self) -> impl Iterator<Item = Proto> + use<'a> {
        let graph = &self.plan.graph;
        let layers = 0..graph.nodes.len();
        let shares: usize = layers.clone().map(|i| self.plan.largest_share(i)).sum();
        let here = |i| if self.plan.divides(i) { self.plan.largest_share(i) } else { self.plan.param_len(i) };
        let params =
            self.bytes(2 * layers.map(here).sum::<usize>()) + self.bytes(shares) * self.options.optimizer_state;
        let region = self.plan.layer(0).x_block(&self.plan.grid, &self.at);
        let read = region.intersect(&Region::full(graph.input())).len() as u64 * self.options.file_element;
        let io = Proto { stream: Stream::Io, ..Self::proto(0, Pass::Input, Work::Io { bytes: read }) };
        [Work::Alloc { bytes: params }, Work::Alloc { bytes: self.bytes(region.len()) }]
            .map(|work| Self::proto(0, Pass::Input, work))
            .into_iter()
            .chain((read > 0).then_some(io))
    }

    fn y_bytes(&self, i: usize) -> u64 {
        self.bytes(self.plan.y_block(i, &self.at).len())
    }

    fn forward(self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let lp = self.plan.layer(i);
        let (grid, at) = (&self.plan.grid, &self.at);
        let pass = Pass::Forward;
        let moved = self.bytes(lp.x_block(grid, at).len());
        let alloc = lp.redistribute.map(|_| Self::proto(i, pass, Work::Alloc { bytes: moved }));
        let halo = if self.plan.input_brings_halo(i) { None } else { Some(lp.halo) };
        let waits = lp.redistribute.is_some() || halo.is_some_and(|t| t.recvs(grid, at).next().is_some());
        let y = (!self.plan.in_place(i)).then(|| Self::proto(i, pass, Work::Alloc { bytes: self.y_bytes(i) }));
        let whole = lp.own_y(grid, at);
        let interior =
            if halo.is_some_and(|t| t.recvs(grid, at).next().is_some()) { lp.interior_y(grid, at) } else { whole };
        let flops = move |elements: usize| self.op(i).forward_flops(elements as u64);
        let compute = if self.plan.divides(i) {
            self.by_share(i, pass, flops(lp.y.iter().product()))
        } else {
            self.parts(i, pass, whole, interior, waits, self.op(i).kind(), flops)
        };
        alloc
            .into_iter()
            .chain(self.maybe_messages(i, pass, lp.redistribute))
            .chain(self.maybe_messages(i, pass, halo))
            .chain(y)
            .chain(self.collectives(i, pass))
            .chain(compute)
    }

    /// The interior, then the rest in one Step that waits.
    fn parts(
        &self,
        layer: usize,
        pass: Pass,
        whole: Region,
        interior: Region,
        waits: bool,
        kernel: &'static str,
        flops: impl Fn(usize) -> u64,
    ) -> Vec<Proto> {
        let lp = self.plan.layer(layer);
        let per_output = |shape: Shape| {
            let outputs: usize = shape.iter().product();
            let inputs: usize = (0..5).map(|d| shape[d] * lp.x[d].div_ceil(lp.y[d].max(1)).max(1)).product();
            self.bytes(outputs + inputs)
        };
        let make = |part, shape: Shape, elements: usize, waits| {
            let work = Work::Compute { kernel, shape, flops: flops(elements), bytes: per_output(shape) };
            Proto { part, waits, ..Self::proto(layer, pass, work) }
        };
        let side = whole.len() - interior.len();
        if side == 0 || interior.is_empty() {
            return vec![make(Part::Whole, whole.shape(), whole.len(), waits)];
        }
        vec![
            make(Part::Interior, interior.shape(), interior.len(), false),
            make(Part::Side, whole.shape(), side, waits),
        ]
    }

    fn loss(&self) -> impl Iterator<Item = Proto> + use<'a> {
        let (pass, last) = (Pass::Backward, self.plan.graph.nodes.len() - 1);
        let region = self.plan.own_output(&self.at);
        let (n, shape) = (region.len(), region.shape());
        let held = self.plan.gradient_block(last, &self.at);
        let dy = Self::proto(last, pass, Work::Alloc { bytes: self.bytes(held.len()) });
        let work = Work::Compute { kernel: "loss", shape, flops: 3 * n as u64, bytes: self.bytes(3 * n) };
        let given = self.plan.graph.lone.is_some();
        let compute = (!given).then(|| Proto { waits: true, ..Self::proto(last, pass, work) });
        let reduce = Work::Collective { group: AxisSet::ALL, kind: CollectiveKind::AllReduce, bytes: 8 };
        let reduce = Proto { stream: Stream::Halo, ..Self::proto(last, pass, reduce) };
        let reduces = !given && !self.alone(AxisSet::ALL);
        std::iter::once(dy).chain(compute).chain(reduces.then_some(reduce))
    }

    fn backward(self, i: usize) -> impl Iterator<Item = Proto> + use<'a> {
        let lp = self.plan.layer(i);
        let pass = Pass::Backward;
        let gather = self.maybe_messages(i, pass, lp.grad_halo);
        let data: Vec<Proto> =
            if lp.needs_dx || self.plan.divides(i) { self.data_gradient(i, &lp) } else { Vec::new() };
        let collectives: Vec<Proto> = if lp.needs_dx { self.collectives(i, pass).collect() } else { Vec::new() };
        gather
            .chain(self.params(i + 1))
            .chain(self.shares(Some(i)))
            .chain(collectives)
            .chain(data)
            .chain(self.maybe_messages(i, pass, lp.scatter))
            .chain(self.maybe_messages(i, pass, lp.grad_redistribute))
            .chain(self.redistributed(i, &lp))
            .chain(self.release(i))
            .chain(self.own_update(i + 1))
    }

    fn data_gradient(&self, i: usize, lp: &LayerPlan) -> Vec<Proto> {
        let (grid, at) = (&self.plan.grid, &self.at);
        let pass = Pass::Backward;
        let mut protos = Vec::new();
        if !self.plan.gradient_in_place(i) && lp.needs_dx {
            let bytes = self.bytes(self.plan.dx_block(i, at).len());
            protos.push(Self::proto(i, pass, Work::Alloc { bytes }));
        }
        if self.plan.divides(i) {
            let flops = self.op(i).backward_data_flops(lp.x.iter().product::<usize>() as u64);
            protos.append(&mut self.by_share(i, pass, flops));
            return protos;
        }
        let received = lp.grad_halo.is_some_and(|t| t.recvs(grid, at).next().is_some());
        let begins_without = received && self.plan.slab_layer() != Some(i);
        // The gradient arrives from the layer above by its scatter or redistribution.
        let waits = received || self.arrives_by_message(i);
        let (whole, interior) = if lp.scatter.is_some() {
            (lp.own_y(grid, at), lp.own_y(grid, at))
        } else if begins_without {
            (lp.own_x(grid, at), lp.interior_x(grid, at))
        } else {
            (lp.own_x(grid, at), lp.own_x(grid, at))
        };
        let op = self.op(i);
        let flops = |elements: usize| {
            if lp.scatter.is_some() {
                op.forward_flops(elements as u64)
            } else {
                op.backward_data_flops(elements as u64)
            }
        };
        protos.extend(self.parts(i, pass, whole, interior, waits, op.kind(), flops));
        protos
    }

    fn arrives_by_message(&self, i: usize) -> bool {
        let above = i + 1;
        above < self.plan.graph.nodes.len() && {
            let lp = self.plan.layer(above);
            lp.scatter.is_some() || lp.grad_redistribute.is_some()
        }
    }

    /// The block of an input gradient that was moved takes the place of the one that it was computed in.
    fn redistributed(&self, i: usize, lp: &LayerPlan) -> impl Iterator<Item = Proto> + use<'a> {
        let blocks = lp.grad_redistribute.map(|_| {
            let (below, own) = (self.plan.dy_block(i - 1, &self.at), self.plan.dx_block(i, &self.at));
            [Work::Alloc { bytes: self.bytes(below.len()) }, Work::Free { bytes: self.bytes(own.len()) }]
        });
        blocks.into_iter().flatten().map(move |work| Self::proto(i, Pass::Backward, work))
    }

    /// What layer `i` no longer needs: its output and its output's gradient, unless another tensor took its place.
    fn release(&self, i: usize) -> Vec<Proto> {
        let (at, above) = (&self.at, i + 1);
        let mut frees = Vec::new();
        if above == self.plan.graph.nodes.len() || !self.plan.in_place(above) {
            frees.push(self.y_bytes(i));
        }
        if !self.plan.gradient_in_place(i) {
            frees.push(self.bytes(self.plan.gradient_block(i, at).len()));
        }
        if i == 0 && self.plan.layer(i).needs_dx {
            // Nobody below takes the input gradient.
            frees.push(self.bytes(self.plan.dx_block(i, at).len()));
        }
        if above < self.plan.graph.nodes.len() {
            let above = self.plan.layer(above);
            if above.redistribute.is_some() {
                frees.push(self.bytes(above.x_block(&self.plan.grid, at).len()));
            }
        }
        frees.into_iter().map(|bytes| Self::proto(i, Pass::Backward, Work::Free { bytes })).collect()
    }
}
