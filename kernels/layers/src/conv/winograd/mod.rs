//! Convolution with windows of 3 x 3 along H and W by F(2x2, 3x3): four outputs from sixteen products instead of 36.
//!
//! Outputs are computed in tiles of 2 x 2, which read tiles of 4 x 4 inputs (Winograd 1980; Lavin and Gray 2016, arXiv
//! 1509.09308). Tiles of inputs and filters are transformed to 16 *points* each; at every point the sum over input channels
//! and taps along D is a product of matrices, `[tiles x C] [C x K]`; and 16 points of sums give four outputs. Transforms cost
//! a few additions for each channel, so they pay where there are some 16 channels on both sides. The data gradient is the
//! same with flipped filters, and the weight gradient has its own transforms: of gradients to points, of points to filters.
//!
//! Nothing of this is as large as a tensor: tiles are taken in chunks whose points stay in the second-level cache. A tile
//! starts at even global coordinates, so that every output comes from the same sums whatever box it is computed in; a box
//! that cuts through a tile leaves out the outputs, and reads zeros for the inputs, that belong to others.
//!
//! Rounding errors are about twice those of a direct sum (both transforms add four values). An input that is not finite
//! spoils the four outputs of each tile that reads it.

mod chunks;
mod filter;
mod gradient;
mod product;
mod transform;

pub(super) use filter::Filter;
pub(super) use gradient::{Gradient, sum};
pub(super) use product::{Job, Scratch, multiply};
pub(super) use transform::{
    Filters, Tiles, transform_filter_gradients, transform_filters, transform_gradients, transform_inputs, transform_outputs,
};

use super::Conv;
use shardmark_partition::Shape;

/// Positions of a tile of inputs along H and along W.
const SIDE: usize = 4;
/// Those of a tile of outputs.
const OUT: usize = 2;
/// Taps along H and along W.
const TAPS: usize = 3;
/// Products of a tile.
const POINTS: usize = SIDE * SIDE;

/// Input and output channels from which on transforms are cheap beside the products.
const CHANNELS: usize = 16;
/// Outputs from which on the transforms of filters are.
const OUTPUTS: usize = 512;

/// Whether this pays for a layer with outputs of a shape. It depends on the whole layer, so that it is the same on all
/// ranks and for all boxes.
pub(super) fn pays(conv: &Conv, y: Shape) -> bool {
    let [d, h, w] = conv.windows;
    let [n, depth, height, width, _] = y;
    let fits = [h, w].iter().all(|window| window.kernel == TAPS && window.stride == 1) && d.stride == 1;
    let outputs = n * depth * height * width;
    let computed = n * depth * height.next_multiple_of(OUT) * width.next_multiple_of(OUT);
    // Of the 9 / 4 that are gained, tiles that reach beyond the tensor leave 3 / 2 at least.
    fits && conv.c.min(conv.k) >= CHANNELS && outputs >= OUTPUTS && 2 * computed <= 3 * outputs
}
