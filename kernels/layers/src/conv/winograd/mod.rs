//! Convolution with three taps along two dimensions by F(2x2, 3x3): four outputs from sixteen products instead of 36.
//!
//! Outputs are computed in tiles of 2 x 2, which read tiles of 4 x 4 inputs (Winograd 1980; Lavin and Gray 2016, arXiv
//! 1509.09308). Tiles of inputs and filters are transformed to 16 *points* each; at every point the sum over input channels
//! is a product of matrices, `[tiles x C] [C x K]`; and 16 points of sums give four outputs. The data gradient is the same
//! with flipped filters, and the weight gradient has its own transforms: of output gradients to points, of points to
//! gradients of filters.
//!
//! Tiles lie along H and W where there is one tap along D, and along D and H where there are three. Then the taps along W
//! stay a direct sum, over a *line* of transformed inputs `[W][C]` of which each output reads a contiguous run, as in
//! `gather`: a transform adds whole lines, however few the channels are.
//!
//! Nothing of this is as large as a tensor: tiles are taken in chunks whose points stay in the second-level cache. A tile
//! starts at even global coordinates, so that every output comes from the same sums whatever box it is computed in; a box
//! that cuts through a tile leaves out the outputs, and reads zeros for the inputs, that belong to others.
//!
//! Rounding errors are about twice those of a direct sum (each transform adds up to four values). An input that is not
//! finite spoils all outputs of each tile that reads it.

mod chunks;
mod filter;
mod gradient;
mod product;
mod transform;

pub(super) use filter::Filter;
pub(super) use gradient::{Gradient, sum};
pub(super) use product::{Job, Scratch, multiply};
pub(super) use transform::{
    Filters, Tiles, transform_filter_gradients, transform_filters, transform_gradients, transform_inputs,
    transform_outputs,
};

use super::pack::Inputs;
use super::{Algorithm, Conv};
use shardmark_partition::{Shape, Window};

/// Positions of a tile of inputs along each of its axes.
const SIDE: usize = 4;
/// Those of a tile of outputs.
const OUT: usize = 2;
/// Taps along each of its axes.
const TAPS: usize = 3;
/// Products of a tile.
const POINTS: usize = SIDE * SIDE;

/// Outputs from which on transforms of filters are cheap beside the products.
const OUTPUTS: usize = 512;

/// The axes of tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axes {
    /// H and W; there is one tap along D.
    Image,
    /// D and H; taps along W are a direct sum.
    Volume,
}

impl Axes {
    /// The axes along which the windows of a layer with outputs of a shape have tiles, if few reach beyond the tensor. They
    /// depend on the whole layer, so that they are the same on all ranks and for all boxes.
    pub fn of(windows: &[Window; 3], y: Shape) -> Option<Axes> {
        let [d, h, w] = windows;
        let three = |window: &Window| window.kernel == TAPS && window.stride == 1;
        let (axes, tiled) = match (three(d), three(h)) {
            (true, true) if w.stride == 1 => (Axes::Volume, [y[1], y[2]]),
            (_, true) if three(w) && d.kernel == 1 && d.stride == 1 => (Axes::Image, [y[2], y[3]]),
            _ => return None,
        };
        let outputs = y[..4].iter().product::<usize>();
        let [used, computed] = [1, OUT].map(|side| tiled.map(|e| e.next_multiple_of(side)).iter().product::<usize>());
        // Of the 9 / 4 that are gained, 3 / 2 are left at least.
        (outputs >= OUTPUTS && 2 * computed <= 3 * used).then_some(axes)
    }

    /// Whether transforms are cheap beside the products for so many channels that are summed over, and that come out.
    pub fn pay(self, sum: usize, out: usize) -> bool {
        let (least_sum, least_out) = match self {
            Axes::Image => (16, 16),
            // Channels along a line need not fill vectors.
            Axes::Volume => (4, 16),
        };
        sum >= least_sum && out >= least_out
    }
}

/// Taps along the line of a convolution with such inputs.
fn line_taps(inputs: &Inputs) -> usize {
    inputs.rows * inputs.taps / (TAPS * TAPS)
}

/// Whether the forward pass, the data gradient and the weight gradient of a layer with outputs of a shape are computed so.
pub(super) fn passes(conv: &Conv, y: Shape) -> [Option<Axes>; 3] {
    let axes = Axes::of(&conv.windows, y).filter(|_| conv.algorithm == Algorithm::Auto);
    [[conv.c, conv.k], [conv.k, conv.c], [conv.c, conv.k]].map(|[sum, out]| axes.filter(|axes| axes.pay(sum, out)))
}
