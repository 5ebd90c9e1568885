//! Flattening: `[N, D, H, W, C]` to `[N, 1, 1, 1, C*D*H*W]` in the order C, D, H, W, as PyTorch flattens.

use crate::{Env, Float, Layer, LayerError, lines};
use shardmark_partition::{Dim, Region, Shape};
use shardmark_tensor::{Block, Layout};

/// Flattening of each sample in the order C, D, H, W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten;

/// [`Flatten`] on a rank.
#[derive(Debug)]
pub struct FlattenLayer {
    shape: Shape,
}

impl FlattenLayer {
    /// The layer for a global input shape.
    pub fn new(shape: Shape) -> Self {
        FlattenLayer { shape }
    }

    /// Calls `visit(n, element of x, feature)` for the place of each element of a box of the input.
    fn for_each(&self, x: &Layout, part: &Region, mut visit: impl FnMut(i64, usize, usize)) {
        let [_, depth, height, width, _] = self.shape;
        let c = part.0[4].len();
        for [n, d, h, w] in lines::lines(part) {
            let mut at = x.offset([n, d, h, w]);
            for w in w..part.0[3].hi {
                for ch in 0..c {
                    visit(n, at + ch, ((ch * depth + d as usize) * height + h as usize) * width + w as usize);
                }
                at += c;
            }
        }
    }
}

impl<T: Float> Layer<T> for FlattenLayer {
    fn forward(&mut self, _env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let samples = Region::full(self.shape).with(Dim::N, part.span(Dim::N));
        let to = y.layout();
        self.for_each(&x.layout(), &samples, |n, at, feature| {
            y.data_mut()[to.offset([n, 0, 0, 0]) + feature] = x.data()[at];
        });
        Ok(())
    }

    fn backward_data(
        &mut self,
        _env: &Env,
        _x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let from = dy.layout();
        self.for_each(&dx.layout(), part, |n, at, feature| {
            dx.data_mut()[at] = dy.data()[from.offset([n, 0, 0, 0]) + feature];
        });
        Ok(())
    }
}
