//! Dropout whose mask depends on the seed, the layer, the step and the global index of an element, never on the grid.
//!
//! `y = x / keep` where an element is kept, 0 elsewhere; the identity in evaluation. The mask is a function
//! (counter-based random numbers), so backward computes it again and nothing is stored.

mod local;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::{Env, Float, Layer, LayerError, lines};
use shardmark_partition::{Region, Shape};
use shardmark_tensor::Block;

/// Dropout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability that an element is kept, in (0, 1].
    pub keep: f64,
}

/// [`Dropout`] on a rank.
#[derive(Debug)]
pub struct DropoutLayer {
    spec: Dropout,
    shape: Shape,
}

impl DropoutLayer {
    /// The layer of a spec for a global input shape.
    pub fn new(spec: Dropout, shape: Shape) -> Self {
        DropoutLayer { spec, shape }
    }

    /// `to = from * mask / keep` on `part`: forward of `x` as well as backward of `dy`.
    fn apply<T: Float>(&self, env: &Env, from: &Block<T>, to: &mut Block<T>, part: &Region) {
        let mask = self.mask(env);
        lines::map(env.team, from, to, part, |at, from, to| {
            to.copy_from_slice(from);
            if let Some(mask) = mask {
                local::apply(mask, self.global_index(at), to);
            }
        });
    }

    /// The same in place.
    fn apply_in_place<T: Float>(&self, env: &Env, values: &mut Block<T>, part: &Region) {
        if let Some(mask) = self.mask(env) {
            lines::update(env.team, values, part, |at, values| local::apply(mask, self.global_index(at), values));
        }
    }

    /// The mask of this step; none in evaluation.
    fn mask(&self, env: &Env) -> Option<local::Mask> {
        env.training.then(|| local::Mask::new(env.seed, env.layer, env.step, self.spec.keep))
    }

    /// Row-major index of the first channel at a global position.
    fn global_index(&self, at: [i64; 4]) -> u64 {
        at.iter().zip(self.shape).fold(0, |index, (&i, extent)| index * extent as u64 + i as u64) * self.shape[4] as u64
    }
}

impl<T: Float> Layer<T> for DropoutLayer {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        self.apply(env, x, y, part);
        Ok(())
    }

    fn backward_data(
        &mut self,
        env: &Env,
        _x: &Block<T>,
        _y: &Block<T>,
        dy: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        self.apply(env, dy, dx, part);
        Ok(())
    }

    fn forward_in_place(&mut self, env: &Env, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        self.apply_in_place(env, y, part);
        Ok(())
    }

    fn backward_in_place(
        &mut self,
        env: &Env,
        _x: &Block<T>,
        _y: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        self.apply_in_place(env, dx, part);
        Ok(())
    }
}
