//! Average and max pooling over D, H and W.
//!
//! With windows `(KD, KH, KW)`, strides `s` and padding `p`, output `o` of each dimension reads the inputs
//! `o*s - p .. o*s - p + K`. Average pooling divides by the full window, padding included (as PyTorch's
//! `count_include_pad`); max pooling pads with -inf, and the first maximum in the order `d, h, w` takes the gradient.
//!
//! Asked to, the gradient goes on through the leaky ReLU that gave the inputs: their sign tells its derivative, and the
//! large tensor is written once.
//!
//! Average: `y[o] = 1/taps * sum_t x[o*s - p + t]`, `dx[i] = 1/taps * sum over the outputs o that read i of dy[o]`; the owner
//! of an input gathers. Max: `dx[argmax(o)] += dy[o]`; the owner of an output scatters, since it has the inputs.

mod apart;
mod gather;
mod join;
mod local;
mod max;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::{Env, Float, GradientHalo, Layer, LayerError};
use shardmark_partition::{Region, Window};
use shardmark_tensor::Block;

/// What a pool takes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolMode {
    /// The mean, padding counted as zeros.
    Average,
    /// The maximum.
    Max,
}

/// Pooling over D, H, W; windows may overlap.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What is taken of a window.
    pub mode: PoolMode,
    /// Windows along D, H, W.
    pub windows: [Window; 3],
}

impl Pool {
    /// Kind of the layer, as records and tables name it.
    pub fn kind(&self) -> &'static str {
        match self.mode {
            PoolMode::Average => "avg_pool",
            PoolMode::Max => "max_pool",
        }
    }

    /// Inputs of one output.
    pub fn taps(&self) -> usize {
        self.windows.iter().map(|w| w.kernel).product()
    }

    /// Value of the border: it changes no sum and wins no maximum.
    pub fn border<T: Float>(&self) -> T {
        match self.mode {
            PoolMode::Average => T::ZERO,
            PoolMode::Max => T::NEG_INFINITY,
        }
    }

    /// How the data gradient crosses ranks. Max scatters: only the owner of an output knows which input won.
    pub fn gradient_halo(&self) -> GradientHalo {
        match self.mode {
            PoolMode::Average => GradientHalo::Gather,
            PoolMode::Max => GradientHalo::Scatter,
        }
    }
}

/// [`Pool`] on a rank.
pub struct PoolLayer<T> {
    spec: Pool,
    /// Slope of the leaky ReLU below that the gradient goes on through.
    slope: Option<T>,
    lines: local::Scratch<T>,
    gather: gather::Scratch<T>,
    winners: max::Scratch<T>,
}

impl<T: Float> PoolLayer<T> {
    /// The layer of a spec.
    pub fn new(spec: Pool) -> Self {
        PoolLayer {
            spec,
            slope: None,
            lines: local::Scratch::default(),
            gather: gather::Scratch::default(),
            winners: max::Scratch::default(),
        }
    }
}

impl<T: Float> Layer<T> for PoolLayer<T> {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        let Self { spec, lines, .. } = self;
        match spec.mode {
            PoolMode::Average => local::forward::<T, join::Mean>(env.team, spec, x, y, part, lines),
            PoolMode::Max => local::forward::<T, join::Max>(env.team, spec, x, y, part, lines),
        }
        Ok(())
    }

    fn backward_data(
        &mut self,
        env: &Env,
        x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        let Self { spec, slope, gather, winners, .. } = self;
        match spec.mode {
            PoolMode::Average => {
                gather::average(env.team, spec, dy, slope.map(|slope| (slope, x)), dx, part, gather);
            }
            PoolMode::Max => {
                max::scatter(env.team, (spec, slope.unwrap_or(T::ONE)), x, dy, dx, part, winners);
            }
        }
        Ok(())
    }

    fn fuse_input_derivative(&mut self, slope: T) -> bool {
        // Where windows overlap, an input's contributions may come from several ranks, and their sum goes through.
        let alone = !self.spec.windows.iter().any(max::overlap);
        if self.spec.mode == PoolMode::Average || alone {
            self.slope = Some(slope);
        }
        self.slope.is_some()
    }
}
