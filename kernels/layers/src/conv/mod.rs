//! Convolution over D, H, W, forward and backward.
//!
//! `y[n,d,h,w,k] = bias[k] + sum over kd,kh,kw,c of x[n, d*s-p+kd, h*s-p+kh, w*s-p+kw, c] * weight[k,c,kd,kh,kw]`
//!
//! x: `[N, D, H, W, C]`, y: `[N, D', H', W', K]`, weight: `[K, C, KD, KH, KW]`, bias: `[K]`. Split over N, D, H and W
//! alike: the halo of x is exchanged before the forward pass, the halo of dy before the data gradient (every rank
//! gathers what reaches its inputs), and the weight gradient is summed over all ranks.

mod cut;
mod dispatch;
mod dot;
mod fill;
mod gather;
mod layer;
mod local;
mod matrix;
mod pack;
mod reduction;
pub mod reference;
mod simd;
mod sweep;
mod tile;
mod transpose;
mod weights;
mod winograd;

#[cfg(test)]
mod tests;

pub use dispatch::{ISAS, Isa};
pub use layer::ConvLayer;
pub use local::Local;
pub(crate) use matrix::Matrix;
pub use transpose::{ConvTranspose, TransposedLocal};

use crate::{Init, ParamSpec};
use shardmark_partition::Window;

/// Shape of a convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Input channels.
    pub c: usize,
    /// Output channels.
    pub k: usize,
    /// Windows along D, H, W.
    pub windows: [Window; 3],
    /// Whether a bias is added.
    pub bias: bool,
    /// How it is computed.
    pub algorithm: Algorithm,
}

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Over tiles, with fewer products (`winograd`), where that is faster.
    #[default]
    Auto,
    /// Every product of the definition.
    Direct,
}

impl Conv {
    /// A 3-D convolution with the same window along D, H and W and equal padding on both sides.
    pub fn cube(c: usize, k: usize, kernel: usize, stride: usize, pad: usize, bias: bool) -> Self {
        Conv { c, k, windows: [Window::new(kernel, stride, pad); 3], bias, algorithm: Algorithm::Auto }
    }

    /// A 2-D convolution (D = 1) with the same window along H and W and equal padding on both sides.
    pub fn image(c: usize, k: usize, kernel: usize, stride: usize, pad: usize, bias: bool) -> Self {
        let window = Window::new(kernel, stride, pad);
        Conv { c, k, windows: [Window::POINT, window, window], bias, algorithm: Algorithm::Auto }
    }

    /// Taps of the filter.
    pub fn taps(&self) -> usize {
        self.windows.iter().map(|w| w.kernel).product()
    }

    /// Parameters: weight `[K, C, KD, KH, KW]`, then bias `[K]` if there is one.
    pub fn params(&self) -> Vec<ParamSpec> {
        let [kd, kh, kw] = self.windows.map(|w| w.kernel);
        let init = Init::Uniform { fan_in: self.c * self.taps(), fan_out: self.k * self.taps() };
        let mut params = vec![ParamSpec { name: "weight", shape: vec![self.k, self.c, kd, kh, kw], init }];
        if self.bias {
            params.push(ParamSpec { name: "bias", shape: vec![self.k], init: Init::Constant(0.0) });
        }
        params
    }

    /// Calls `visit(index in [K, C, taps], index in [taps, C, K])` for every weight: its place in PyTorch's layout, and in the
    /// layer's, the order in which the weight gradient is written and the forward weights are packed.
    pub(crate) fn for_each_weight(&self, mut visit: impl FnMut(usize, usize)) {
        let (c, k, taps) = (self.c, self.k, self.taps());
        for tap in 0..taps {
            for ci in 0..c {
                for ki in 0..k {
                    visit((ki * c + ci) * taps + tap, (tap * c + ci) * k + ki);
                }
            }
        }
    }
}
