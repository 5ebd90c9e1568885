//! What one rank does for each layer: boxes, blocks and messages, worked out once, so that a step plans nothing.

use crate::boxes::{self, Boxes};
use crate::plan::{LayerPlan, NetPlan};
use shardmark_layers::activation::LeakyRelu;
use shardmark_layers::{Float, Layer, Op};
use shardmark_partition::{Coords, Grid, Region, Transfer, Window};

/// A transfer as one rank sees it.
pub(crate) struct Route {
    /// Names the messages.
    pub key: u32,
    /// Peers and boxes to receive.
    pub recvs: Vec<(usize, Region)>,
    /// Peers and boxes to send.
    pub sends: Vec<(usize, Region)>,
    /// The box that stays.
    pub local: Region,
}

impl Route {
    /// A transfer on the rank at `at`.
    pub fn new(transfer: &Transfer, grid: &Grid, at: &Coords) -> Self {
        Route {
            key: transfer.key,
            recvs: transfer.recvs(grid, at).collect(),
            sends: transfer.sends(grid, at).collect(),
            local: transfer.local(grid, at),
        }
    }
}

/// One layer on one rank.
pub(crate) struct Stage {
    /// Outputs that the rank owns.
    pub own_y: Region,
    /// Block of the output.
    pub y_block: Region,
    /// Block that the input gradient is computed in.
    pub dx_block: Region,
    /// Whether the output takes the place of the input.
    pub in_place: bool,
    /// Whether the input gradient takes the place of the output gradient.
    pub gradient_in_place: bool,
    /// Whether the layer below has done the forward pass already; a pass then only moves the block.
    pub fused_forward: bool,
    /// Whether a neighbour does the backward pass.
    pub fused_backward: bool,
    /// Whether there is an input gradient.
    pub needs_dx: bool,
    /// The input gradient, if it comes in slabs.
    pub slabs: Vec<Region>,
    /// Whether the output gradient is one that comes in slabs: the layer's own gradients come with it.
    pub below_slabs: bool,
    /// What of the input's block lies outside the tensor and is read.
    pub x_border: Vec<Region>,
    /// What of the output gradient's block lies outside the tensor and is read.
    pub dy_border: Vec<Region>,
    /// Moves the input into a block of its own.
    pub redistribute: Option<(Route, Region)>,
    /// Brings inputs; none where they come with the network's input.
    pub halo: Option<Route>,
    /// Outputs around the arrival of the halo.
    pub outputs: Boxes,
    /// Brings output gradients.
    pub grad_halo: Option<Route>,
    /// Inputs around the arrival of output gradients; all outputs where the gradient scatters.
    pub inputs: Boxes,
    /// Sends contributions to input gradients to their owners.
    pub scatter: Option<Route>,
    /// Moves the input gradient into a block for the layer below.
    pub grad_redistribute: Option<(Route, Region)>,
    /// Whether the layer's parameters are divided among all ranks.
    pub divides: bool,
}

impl Stage {
    /// Layer `i` of a plan on the rank at `at`.
    pub fn new(plan: &NetPlan, i: usize, at: &Coords) -> Self {
        let (lp, grid) = (plan.layer(i), &plan.grid);
        let route = |transfer: &Transfer| Route::new(transfer, grid, at);
        let halo = (!plan.input_brings_halo(i)).then(|| route(&lp.halo));
        let grad_halo = lp.grad_halo.as_ref().map(route);
        let receives = |route: &Option<Route>| route.as_ref().is_some_and(|r| !r.recvs.is_empty());
        let op = &plan.graph.nodes[i].op;
        let (own_y, own_x) = (lp.own_y(grid, at), lp.own_x(grid, at));
        let slab_layer = plan.slab_layer();
        // Layers with windows compute any sub-box, to the same bits.
        let divides = plan.divides(i);
        let cut = grid.size() > 1 && !divides && lp.windows != [Window::POINT; 3];
        let elements = (own_x.len() + own_y.len()) as u64;
        let pieces = |flops: u64| if cut { boxes::pieces(flops, elements) } else { 1 };
        let forward = pieces(op.forward_flops(own_y.len() as u64));
        let backward = pieces(op.backward_data_flops(own_x.len() as u64));
        let outputs = Boxes::new(own_y, receives(&halo).then(|| lp.interior_y(grid, at)), forward);
        let inputs = if lp.scatter.is_some() {
            Boxes::new(own_y, None, 1)
        } else {
            Boxes::new(own_x, receives(&grad_halo).then(|| lp.interior_x(grid, at)), backward)
        };
        Stage {
            own_y: lp.own_y(grid, at),
            y_block: plan.y_block(i, at),
            dx_block: if lp.needs_dx { plan.dx_block(i, at) } else { Region::default() },
            in_place: plan.in_place(i),
            gradient_in_place: plan.gradient_in_place(i),
            fused_forward: false,
            fused_backward: false,
            needs_dx: lp.needs_dx,
            slabs: if slab_layer == Some(i) { plan.slabs(i, at) } else { Vec::new() },
            below_slabs: slab_layer.is_some_and(|above| i < above),
            x_border: x_border(plan, i, &lp, at),
            dy_border: if grad_halo.is_some() { border(plan.gradient_block(i, at), lp.y) } else { Vec::new() },
            redistribute: lp.redistribute.as_ref().map(|t| (route(t), lp.x_block(grid, at))),
            halo,
            outputs,
            grad_halo,
            inputs,
            scatter: lp.scatter.as_ref().map(route),
            grad_redistribute: lp.grad_redistribute.as_ref().map(|t| (route(t), plan.dy_block(i - 1, at))),
            divides,
        }
    }
}

/// Lets neighbours do the work of each leaky ReLU in the passes that they make over the same tensor. Only one that works
/// in place: its tensor is then nobody else's.
pub(crate) fn fuse<T: Float>(plan: &NetPlan, stages: &mut [Stage], layers: &mut [Box<dyn Layer<T>>]) {
    for (i, node) in plan.graph.nodes.iter().enumerate() {
        let Op::LeakyRelu(LeakyRelu { slope }) = node.op else { continue };
        if !stages[i].in_place {
            continue;
        }
        let slope = T::from_f64(slope);
        let below = layers[i - 1].fuse_activation(slope);
        let above = layers.get_mut(i + 1).is_some_and(|layer| layer.fuse_input_derivative(slope));
        stages[i].fused_forward = below;
        stages[i].fused_backward = above || below && layers[i - 1].fuse_output_derivative(slope);
    }
}

/// A layer without windows reads no border; margins of its input's block are there for a layer above.
fn x_border(plan: &NetPlan, i: usize, lp: &LayerPlan, at: &Coords) -> Vec<Region> {
    if lp.windows == [Window::POINT; 3] {
        return Vec::new();
    }
    let own_block = i == 0 || lp.redistribute.is_some();
    border(if own_block { lp.x_block(&plan.grid, at) } else { plan.y_block(i - 1, at) }, lp.x)
}

/// What of a block lies outside a tensor.
fn border(block: Region, shape: shardmark_partition::Shape) -> Vec<Region> {
    block.minus(&block.intersect(&Region::full(shape)))
}
