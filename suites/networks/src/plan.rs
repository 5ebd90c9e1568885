//! What one rank holds, computes and exchanges for every layer of a network on a grid.
//!
//! The executor moves data by these values and the Steps are printed from them: there is no second description.

use crate::boxes;
use crate::graph::Graph;
use shardmark_layers::{GradientHalo, Op};
use shardmark_partition::{AxisSet, Coords, Cover, Dim, Dist, Grid, Region, SPATIAL, Shape, Span, Transfer, Window};
use std::ops::Range;

/// How many times as many parameters as values of all samples a layer has whose parameters are divided.
const WORTH_DIVIDING: usize = 4;

/// Transfers of a layer, as the last digit of a message key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Redistribute,
    Halo,
    GradRedistribute,
    GradHalo,
    Scatter,
}

/// One layer on a grid, for any rank: shapes, distribution and transfers.
#[derive(Clone, Copy, Debug)]
pub struct LayerPlan {
    /// Input shape, global.
    pub x: Shape,
    /// Output shape, global.
    pub y: Shape,
    /// Windows along D, H, W.
    pub windows: [Window; 3],
    /// Distribution of input and output while the layer works.
    pub dist: Dist,
    /// Moves the input from its producer's distribution to `dist`, where they differ.
    pub redistribute: Option<Transfer>,
    /// Brings the inputs that the owned outputs read.
    pub halo: Transfer,
    /// Brings the output gradients that reach the owned inputs (layers whose gradient gathers).
    pub grad_halo: Option<Transfer>,
    /// Sends contributions to input gradients to their owners, to be added (layers whose gradient scatters).
    pub scatter: Option<Transfer>,
    /// Moves the input gradient back to the producer's distribution.
    pub grad_redistribute: Option<Transfer>,
    /// Whether the input gradient is needed at all; a network's first layer's is not.
    pub needs_dx: bool,
}

impl LayerPlan {
    /// Outputs that a rank owns.
    pub fn own_y(&self, grid: &Grid, at: &Coords) -> Region {
        Cover::own(self.y, self.dist).region(grid, at)
    }

    /// Inputs that a rank owns.
    pub fn own_x(&self, grid: &Grid, at: &Coords) -> Region {
        Cover::own(self.x, self.dist).region(grid, at)
    }

    /// Region of the block that holds the input: what is owned, the halo, and the border that sticks out.
    pub fn x_block(&self, grid: &Grid, at: &Coords) -> Region {
        self.own_x(grid, at).hull(&self.halo.to.padded(grid, at))
    }

    /// Region of the block that holds the output gradient.
    pub fn dy_block(&self, grid: &Grid, at: &Coords) -> Region {
        let own = self.own_y(grid, at);
        match &self.grad_halo {
            Some(halo) => own.hull(&halo.to.padded(grid, at)),
            None => own,
        }
    }

    /// Region of the block that a layer's input gradient is computed in, before any redistribution.
    pub fn dx_block(&self, grid: &Grid, at: &Coords) -> Region {
        if self.scatter.is_some() { self.x_block(grid, at) } else { self.own_x(grid, at) }
    }

    /// Owned outputs that read nothing but owned inputs and the border.
    pub fn interior_y(&self, grid: &Grid, at: &Coords) -> Region {
        let (x, mut y) = (self.own_x(grid, at), self.own_y(grid, at));
        for (window, dim) in self.windows.iter().zip(SPATIAL) {
            let inside = window.interior(beyond_edges(x.span(dim), self.x[dim as usize]));
            y = y.with(dim, even(y.span(dim), inside, window));
        }
        y
    }

    /// Owned inputs whose gradient needs nothing but owned output gradients.
    pub fn interior_x(&self, grid: &Grid, at: &Coords) -> Region {
        let (mut x, y) = (self.own_x(grid, at), self.own_y(grid, at));
        for (window, dim) in self.windows.iter().zip(SPATIAL) {
            let inside = window.interior_inputs(beyond_edges(y.span(dim), self.y[dim as usize]));
            x = x.with(dim, even(x.span(dim), inside, window));
        }
        x
    }
}

/// The part of `own` that lies `inside`, cut off at even coordinates where anything is left then: convolutions compute pairs
/// of neighbours that start there, and one apart costs as much as both.
fn even(own: Span, inside: Span, window: &Window) -> Span {
    let common = own.intersect(inside);
    if window.stride != 1 || common.is_empty() {
        return common;
    }
    let lo = if common.lo == own.lo { own.lo } else { common.lo + (common.lo & 1) };
    let hi = if common.hi == own.hi { own.hi } else { common.hi & !1 };
    if lo < hi { Span { lo, hi } } else { common }
}

/// Beyond the edges of a tensor nobody has to be asked: the span reaches out to where windows may look.
fn beyond_edges(own: Span, extent: usize) -> Span {
    let far = 4 * extent as i64 + (1 << 20);
    if own.is_empty() {
        return own;
    }
    Span { lo: if own.lo == 0 { -far } else { own.lo }, hi: if own.hi == extent as i64 { far } else { own.hi } }
}

/// A network on a grid.
#[derive(Clone, Debug)]
pub struct NetPlan {
    /// The network.
    pub graph: Graph,
    /// The ranks.
    pub grid: Grid,
    /// Layers from this one on work on whole samples.
    tail: usize,
}

impl NetPlan {
    /// Lays a network out on a grid.
    pub fn new(graph: Graph, grid: Grid) -> Self {
        let mut plan = NetPlan { tail: graph.tail, graph, grid };
        if plan.graph.tail_moves {
            plan.tail = plan.earliest_tail();
        }
        plan
    }

    /// Layers from this one on work on whole samples, in [`Dist::samples`].
    pub fn tail(&self) -> usize {
        self.tail
    }

    /// The first layer worth dividing from which on, up to the graph's tail, all others are so too or have next to nothing to
    /// do. Statistics over some of the ranks would become others where the tail begins earlier.
    fn earliest_tail(&self) -> usize {
        let moves = |i: usize| match &self.graph.nodes[i].op {
            Op::Norm(norm) => norm.group == AxisSet::ALL,
            op => op.params().is_empty() || self.worth_dividing(i),
        };
        let below = (0..self.graph.tail).rev().take_while(|&i| moves(i));
        below.filter(|&i| self.worth_dividing(i)).last().unwrap_or(self.graph.tail)
    }

    /// Distribution in which layer `i` works.
    pub fn dist(&self, i: usize) -> Dist {
        if i < self.tail { Dist::spatial() } else { Dist::samples() }
    }

    /// Plan of layer `i`; costs a few dozen integer operations, so nothing is stored here.
    pub fn layer(&self, i: usize) -> LayerPlan {
        let op = &self.graph.nodes[i].op;
        let (x, y) = (self.graph.shapes[i], self.graph.shapes[i + 1]);
        let (dist, windows) = (self.dist(i), op.windows());
        let needs_dx = i > 0 || self.graph.lone.is_some_and(|lone| lone.input_gradient);
        let key = |leg: Leg| (i * 8 + leg as usize) as u32;
        let own_x = Cover::own(x, dist);
        // A flatten layer has no window that maps its channels to space; it reads what it owns.
        let reads = if op.whole_samples() { own_x } else { Cover::inputs(x, y, dist, windows) };
        let moved = i > 0 && self.dist(i - 1) != dist;
        let redistribute =
            moved.then(|| Transfer { from: Cover::own(x, self.dist(i - 1)), to: own_x, key: key(Leg::Redistribute) });
        let gathers = needs_dx && op.gradient_halo() == GradientHalo::Gather && windows != [Window::POINT; 3];
        let scatters = needs_dx && op.gradient_halo() == GradientHalo::Scatter;
        LayerPlan {
            x,
            y,
            windows,
            dist,
            redistribute,
            halo: Transfer { from: own_x, to: reads, key: key(Leg::Halo) },
            grad_halo: gathers.then(|| Transfer {
                from: Cover::own(y, dist),
                to: Cover::outputs(y, x, dist, windows),
                key: key(Leg::GradHalo),
            }),
            scatter: scatters.then(|| Transfer { from: reads, to: own_x, key: key(Leg::Scatter) }),
            grad_redistribute: redistribute.map(|t| t.reversed(key(Leg::GradRedistribute))),
            needs_dx,
        }
    }

    /// Whether the parameters of layer `i` are divided among all ranks, which compute with them for all samples
    /// ([`ShareLayer`](shardmark_layers::ShareLayer)): inputs, outputs and their gradients are then sent instead of gradients
    /// and new parameters. What is sent is waited for, while those would hide behind the backward pass; so it has to be much less.
    pub fn divides(&self, i: usize) -> bool {
        i >= self.tail && self.worth_dividing(i)
    }

    /// Whether the parameters of layer `i` would be divided if it were in the tail.
    fn worth_dividing(&self, i: usize) -> bool {
        let (op, ranks) = (&self.graph.nodes[i].op, self.grid.size());
        if ranks == 1 || !op.divides() {
            return false;
        }
        let values: usize = self.graph.shapes[i..i + 2].iter().map(|shape| shape[1..].iter().product::<usize>()).sum();
        let most_samples = self.graph.input()[0].div_ceil(ranks);
        most_samples.saturating_mul(ranks).saturating_mul(values).saturating_mul(WORTH_DIVIDING) < self.param_len(i)
    }

    /// Parameters of layer `i`.
    pub fn param_len(&self, i: usize) -> usize {
        self.graph.nodes[i].op.params().iter().map(|p| p.len()).sum()
    }

    /// Most parameters of layer `i` that a rank updates.
    pub fn largest_share(&self, i: usize) -> usize {
        if self.divides(i) {
            self.graph.nodes[i].op.largest_share(self.grid.size())
        } else {
            self.param_len(i).div_ceil(self.grid.size())
        }
    }

    /// Samples of the batch that each rank owns in the tail.
    pub fn tail_samples(&self) -> Vec<usize> {
        let batch = Cover::own([self.graph.input()[0], 1, 1, 1, 1], Dist::samples());
        (0..self.grid.size()).map(|rank| batch.region(&self.grid, &self.grid.coords(rank)).span(Dim::N).len()).collect()
    }

    /// The layer in whose backward pass a rank comes to the gradients of divided parameters, while the first halo below the
    /// tail is on its way; `None` is after all layers.
    pub fn shares_after(&self) -> Option<usize> {
        (0..self.tail).rev().find(|&i| self.layer(i).grad_halo.is_some())
    }

    /// Whether layer `i` writes its output over its input: it can, and nobody else reads that input. The layer below made
    /// it, and may want it in the backward pass; a redistributed one is a copy with margins of its own.
    pub fn in_place(&self, i: usize) -> bool {
        self.follows(i) && self.graph.nodes[i].op.in_place() && !self.graph.nodes[i - 1].op.reads_output()
    }

    /// Whether layer `i` writes its input gradient over its output gradient.
    pub fn gradient_in_place(&self, i: usize) -> bool {
        self.follows(i) && self.graph.nodes[i].op.gradient_in_place()
    }

    /// Whether layer `i` takes its input as the layer below left it.
    fn follows(&self, i: usize) -> bool {
        i > 0 && self.dist(i - 1) == self.dist(i)
    }

    /// Region of the block that holds the output of layer `i`: the consumer's, margins included, unless the consumer
    /// redistributes it. The consumer of an output that is overwritten is that of the output which takes its place.
    pub fn y_block(&self, i: usize, at: &Coords) -> Region {
        let above = i + 1;
        if above == self.graph.nodes.len() || !self.follows(above) {
            return self.layer(i).own_y(&self.grid, at);
        }
        if self.in_place(above) { self.y_block(above, at) } else { self.layer(above).x_block(&self.grid, at) }
    }

    /// Region that the block of the gradient of layer `i`'s output covers: what the layer reads, and what the layer below
    /// reads of an input gradient that takes its place.
    pub fn dy_block(&self, i: usize, at: &Coords) -> Region {
        let reads = self.layer(i).dy_block(&self.grid, at);
        if self.gradient_in_place(i) { reads.hull(&self.dy_block(i - 1, at)) } else { reads }
    }

    /// The lowest layer with an input gradient of its own, if nobody reads that gradient but the parameter gradients of the
    /// network's first layer. It then never is whole: one slab after the other is computed, taken through the pointwise
    /// layers between, and added up, and neither writes nor reads memory.
    pub fn slab_layer(&self) -> Option<usize> {
        let ops = |layers: Range<usize>| self.graph.nodes[layers].iter().map(|node| &node.op);
        let i = (1..self.graph.nodes.len()).find(|&i| !self.gradient_in_place(i))?;
        let ends = !self.layer(0).needs_dx && !self.graph.nodes[0].op.params().is_empty() && !self.divides(0);
        let between = ops(1..i).all(|op| op.params().is_empty());
        (ends && between && self.follows(i) && self.layer(i).grad_halo.is_some()).then_some(i)
    }

    /// The slabs of the input gradient of [`NetPlan::slab_layer`] on a rank, in order.
    pub fn slabs(&self, i: usize, at: &Coords) -> Vec<Region> {
        boxes::cached_slabs(self.layer(i).own_x(&self.grid, at))
    }

    /// Region of the block that the gradient of layer `i`'s input is computed in: as the layer below wants it, unless it is
    /// moved before or there is none. Of slabs the largest.
    pub fn dx_block(&self, i: usize, at: &Coords) -> Region {
        if self.slab_layer() == Some(i) {
            return boxes::largest_cached_slab(self.layer(i).own_x(&self.grid, at));
        }
        let lp = self.layer(i);
        let own = lp.dx_block(&self.grid, at);
        if i == 0 || lp.grad_redistribute.is_some() { own } else { own.hull(&self.dy_block(i - 1, at)) }
    }

    /// Region of the block in which the gradient of layer `i`'s output reaches the layer.
    pub fn gradient_block(&self, i: usize, at: &Coords) -> Region {
        let above = i + 1;
        if above == self.graph.nodes.len() || !self.follows(above) {
            return self.dy_block(i, at);
        }
        if self.gradient_in_place(above) { self.gradient_block(above, at) } else { self.dx_block(above, at) }
    }

    /// Region of the prediction that a rank owns.
    pub fn own_output(&self, at: &Coords) -> Region {
        Cover::own(self.graph.output(), self.dist(self.graph.nodes.len() - 1)).region(&self.grid, at)
    }

    /// Whether layer `i`'s halo is read with the input instead of exchanged: only a network's input comes from files.
    pub fn input_brings_halo(&self, i: usize) -> bool {
        i == 0 && self.graph.lone.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interior_ends_at_even_coordinates_unless_nothing_is_left() {
        let cut = |own: [i64; 2], inside: [i64; 2], stride| {
            let span = |[lo, hi]: [i64; 2]| Span::new(lo, hi);
            let got = even(span(own), span(inside), &Window::new(3, stride, 1));
            [got.lo, got.hi]
        };
        assert_eq!(cut([0, 64], [-9, 63], 1), [0, 62]);
        assert_eq!(cut([63, 129], [64, 128], 1), [64, 128]);
        assert_eq!(cut([63, 127], [64, 999], 1), [64, 127]);
        assert_eq!(cut([7, 12], [9, 11], 1), [9, 11]);
        assert_eq!(cut([7, 10], [8, 9], 1), [8, 9]);
        assert_eq!(cut([0, 64], [-9, 63], 2), [0, 63]);
        assert!(even(Span::new(4, 6), Span::new(5, 5), &Window::new(3, 1, 1)).is_empty());
    }
}
