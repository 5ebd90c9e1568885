//! A layer on an input as one line of text: the grammar that benches and workloads share, without a kernel.
//!
//! ```text
//! conv3d n=1 c=16 k=32 in=64x64x64 kernel=3 stride=1 pad=1              conv2d, and conv_transpose2d|3d, alike; no bias
//! dense n=1024 c=1024 k=4096                                            with bias
//! pool_avg3d n=1 c=16 in=128x128x128 kernel=3 stride=2 pad=1            pool_max3d, pool_avg2d, pool_max2d alike
//! batch_norm n=1 c=16 in=128x128x128                                    leaky_relu alike
//! ```
//!
//! `kernel`, `stride` and `pad` hold one value for all dimensions or one for each (`3x1x1`); a padding `0:1` is none
//! before and one after. `first` after a convolution or a dense layer says that it reads the network's input: it has no
//! data gradient.

mod fields;
mod line;
#[cfg(test)]
mod tests;

pub use fields::{Fields, LineError};
pub use line::{Kind, LayerLine, MOST_ELEMENTS, elements, too_many};
