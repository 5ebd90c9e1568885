//! Batch normalisation with statistics over a group of ranks.
//!
//! Over the `m` positions `[N, D, H, W]` that a group of ranks owns, for each channel:
//!
//! ```text
//! mean = 1/m sum x      var = 1/m sum (x - mean)^2      xhat = (x - mean) / sqrt(var + eps)      y = weight*xhat + bias
//! dbias = sum dy        dweight = sum dy*xhat           dx = weight / sqrt(var + eps) * (dy - dbias/m - xhat*dweight/m)
//! ```
//!
//! Sums are in f64. The ranks of a group merge (count, mean, M2) in rank order by the pairwise formula of Chan, Golub and
//! LeVeque (1979), where M2 is the sum of squared deviations: nothing is ever the difference of two large sums, and
//! ranks may own unequal parts or nothing. The gradient through the group's statistics is exact: its two sums are
//! reduced over the same group. The biased variance normalises; the running variance takes the unbiased one,
//! `M2 / (m - 1)`, as in PyTorch.
//!
//! Asked to, it applies the leaky ReLU after it to its outputs, and takes the gradients of that one's outputs: the sign of
//! `weight*xhat + bias` is computed again by the same operations, so no pass reads y.

mod local;
mod moments;
pub mod reference;
mod sweep;
#[cfg(test)]
mod tests;

use self::sweep::{Sweep, overwrite_period};
use crate::store::{Cached, Stores, Streaming};
use crate::{Collective, Env, Float, Init, Layer, LayerError, Param, ParamSpec, lines};
use shardmark_comm::{CommExt, ReduceOp};
use shardmark_partition::step::{CollectiveKind, Pass};
use shardmark_partition::{AxisSet, Region};
use shardmark_tensor::Block;

/// Batch normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// Channels.
    pub channels: usize,
    /// Added to the variance (PyTorch: 1e-5).
    pub eps: f64,
    /// Share of the batch in the running statistics, `running = (1 - momentum) * running + momentum * batch`: PyTorch's
    /// sense (default 0.1); a decay of 0.999 elsewhere is a momentum of 0.001 here.
    pub momentum: f64,
    /// Grid axes along which the ranks share statistics; none: each rank has its own.
    pub group: AxisSet,
}

impl BatchNorm {
    /// `weight` and `bias`, one value a channel.
    pub fn params(&self) -> Vec<ParamSpec> {
        let param = |name, value| ParamSpec { name, shape: vec![self.channels], init: Init::Constant(value) };
        vec![param("weight", 1.0), param("bias", 0.0)]
    }

    /// What a rank of a group of several performs in training: one merge of f64 (count, means, M2s) forward, one sum of
    /// two f64 a channel backward. A group of one rank performs none, and neither does evaluation.
    pub fn collectives(&self, pass: Pass) -> Vec<Collective> {
        let (kind, values) = match pass {
            Pass::Forward => (CollectiveKind::TreeAllReduce, 1 + 2 * self.channels),
            Pass::Backward => (CollectiveKind::AllReduce, 2 * self.channels),
            Pass::Input | Pass::Update => return Vec::new(),
        };
        if self.group == AxisSet::NONE {
            return Vec::new();
        }
        vec![Collective { group: self.group, kind, bytes: (values * size_of::<f64>()) as u64 }]
    }
}

/// Statistics that normalised a batch.
#[derive(Clone, Debug, Default)]
struct Statistics {
    /// Positions; zero in evaluation.
    count: f64,
    mean: Vec<f64>,
    /// `1 / sqrt(var + eps)`.
    inv_std: Vec<f64>,
}

/// [`BatchNorm`] on a rank. The gradients of its parameters come with [`Layer::backward_data`], which needs their sums
/// anyway: it is to be called for every batch norm, also for one whose input gradient nobody reads.
pub struct NormLayer<T> {
    spec: BatchNorm,
    params: [Param<T>; 2],
    running_mean: Vec<T>,
    running_var: Vec<T>,
    used: Statistics,
    channels: local::Channels<T>,
    /// What the last sums over positions came to, of this rank or of its group.
    sums: Vec<f64>,
    scratch: moments::Scratch<T>,
    /// Slope of the leaky ReLU that outputs go through; one for none.
    slope: T,
    /// Slope of the leaky ReLU whose outputs' gradients are given; one for none.
    dy_slope: T,
}

impl<T: Float> NormLayer<T> {
    /// The layer of a spec, with running mean 0 and variance 1.
    pub fn new(spec: BatchNorm) -> Self {
        let c = spec.channels;
        let weight = Param { value: vec![T::ONE; c], grad: vec![T::ZERO; c] };
        NormLayer {
            params: [weight, Param::zeros(c)],
            running_mean: vec![T::ZERO; c],
            running_var: vec![T::ONE; c],
            used: Statistics::default(),
            channels: local::Channels::default(),
            sums: Vec::new(),
            scratch: moments::Scratch::default(),
            slope: T::ONE,
            dy_slope: T::ONE,
            spec,
        }
    }

    /// Takes the statistics of the group's batch; the running ones take their share.
    fn use_batch_statistics(&mut self, env: &Env, x: &Block<T>, part: &Region) -> Result<(), LayerError> {
        let BatchNorm { channels: c, eps, momentum, group } = self.spec;
        let record = &mut self.sums;
        moments::moments(env.team, x, part, c, &mut self.scratch, record);
        if let Some(group) = env.groups.group(group) {
            env.communicate(|| group.tree_allreduce_vec(record, &mut moments::merge))?;
        }
        let (count, mean, m2) = (record[0], &record[1..=c], &record[1 + c..]);
        if count > 0.0 {
            let update = |running: &mut T, batch| {
                *running = T::from_f64((1.0 - momentum) * running.to_f64() + momentum * batch);
            };
            self.running_mean.iter_mut().zip(mean).for_each(|(r, &mean)| update(r, mean));
            let unbiased = (count - 1.0).max(1.0);
            self.running_var.iter_mut().zip(m2).for_each(|(r, m2)| update(r, m2 / unbiased));
        }
        self.used.count = count;
        overwrite(&mut self.used.mean, mean.iter().copied());
        overwrite(&mut self.used.inv_std, m2.iter().map(|m2| 1.0 / (m2 / count.max(1.0) + eps).sqrt()));
        Ok(())
    }

    fn use_running_statistics(&mut self) {
        self.used.count = 0.0;
        overwrite(&mut self.used.mean, self.running_mean.iter().map(|v| v.to_f64()));
        let eps = self.spec.eps;
        overwrite(&mut self.used.inv_std, self.running_var.iter().map(|var| 1.0 / (var.to_f64() + eps).sqrt()));
    }

    /// Writes the parameter gradients, and what [`local::input_gradient`] needs.
    fn prepare_gradient(&mut self, env: &Env, x: &Block<T>, dy: &Block<T>, part: &Region) -> Result<(), LayerError> {
        let (c, used) = (self.spec.channels, &self.used);
        let sums = &mut self.sums;
        // [sum dy, sum dy * xhat] of this rank: its part of the gradients of bias and weight.
        let channels = (&used.mean[..], &self.channels, self.dy_slope);
        moments::gradient_sums(env.team, channels, x, dy, part, &mut self.scratch, sums);
        sums[c..].iter_mut().zip(&used.inv_std).for_each(|(sum, s)| *sum *= s);
        let [weight, bias] = &mut self.params;
        bias.grad.iter_mut().zip(&sums[..c]).for_each(|(g, &sum)| *g = T::from_f64(sum));
        weight.grad.iter_mut().zip(&sums[c..]).for_each(|(g, &sum)| *g = T::from_f64(sum));
        if !env.training {
            // Running statistics do not depend on x.
            sums.fill(0.0);
        } else if let Some(group) = env.groups.group(self.spec.group) {
            *sums = env.communicate(|| group.allreduce_vec(std::mem::take(sums), ReduceOp::Sum))?;
        }
        let m = used.count.max(1.0);
        overwrite_period(&mut self.channels.mean_dy, sums[..c].iter().map(|&sum| T::from_f64(sum / m)));
        let through = sums[c..].iter().zip(&used.inv_std).map(|(&sum, s)| T::from_f64(sum * s / m));
        overwrite_period(&mut self.channels.through, through);
        Ok(())
    }
}

/// Puts new values into a vector that is kept.
fn overwrite<V>(vector: &mut Vec<V>, values: impl Iterator<Item = V>) {
    vector.clear();
    vector.extend(values);
}

impl<T: Float> Layer<T> for NormLayer<T> {
    fn forward(&mut self, env: &Env, x: &Block<T>, y: &mut Block<T>, part: &Region) -> Result<(), LayerError> {
        if env.training {
            self.use_batch_statistics(env, x, part)?;
        } else {
            self.use_running_statistics();
        }
        let Self { used, params: [weight, bias], channels, slope, spec, .. } = self;
        overwrite_period(&mut channels.mean, used.mean.iter().map(|&mean| T::from_f64(mean)));
        let scale = weight.value.iter().zip(&used.inv_std).map(|(w, s)| T::from_f64(w.to_f64() * s));
        overwrite_period(&mut channels.scale, scale);
        overwrite_period(&mut channels.shift, bias.value.iter().copied());
        let normalise = match Stores::of::<T>(y.region()) {
            Stores::Cached => local::normalise::<T, Cached>,
            Stores::Streaming => local::normalise::<T, Streaming>,
        };
        let sweep = Sweep::of::<T>(y.region(), spec.channels);
        lines::map(env.team, x, y, part, |_, x, y| normalise(channels, *slope, sweep, x, y));
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
        self.prepare_gradient(env, x, dy, part)?;
        let (layout, len) = (dy.layout(), lines::line_len(part));
        let input_gradient = match Stores::of::<T>(dx.region()) {
            Stores::Cached => local::input_gradient::<T, Cached>,
            Stores::Streaming => local::input_gradient::<T, Streaming>,
        };
        let sweep = Sweep::of::<T>(dx.region(), self.spec.channels);
        lines::map(env.team, x, dx, part, |at, x, dx| {
            let dy = lines::line(dy.data(), &layout, at, len);
            input_gradient(&self.channels, self.dy_slope, sweep, x, Some(dy), dx);
        });
        Ok(())
    }

    fn backward_in_place(
        &mut self,
        env: &Env,
        x: &Block<T>,
        _y: &Block<T>,
        dx: &mut Block<T>,
        part: &Region,
    ) -> Result<(), LayerError> {
        self.prepare_gradient(env, x, dx, part)?;
        let sweep = Sweep::of::<T>(part, self.spec.channels);
        lines::map(env.team, x, dx, part, |_, x, dx| {
            local::input_gradient::<T, Cached>(&self.channels, self.dy_slope, sweep, x, None, dx);
        });
        Ok(())
    }

    fn fuse_activation(&mut self, slope: T) -> bool {
        self.slope = slope;
        true
    }

    fn fuse_output_derivative(&mut self, slope: T) -> bool {
        self.dy_slope = slope;
        true
    }

    fn params(&self) -> &[Param<T>] {
        &self.params
    }

    fn params_mut(&mut self) -> &mut [Param<T>] {
        &mut self.params
    }

    fn buffers(&self) -> Vec<(&'static str, &[T])> {
        vec![("running_mean", &self.running_mean), ("running_var", &self.running_var)]
    }

    fn buffers_mut(&mut self) -> Vec<(&'static str, &mut Vec<T>)> {
        vec![("running_mean", &mut self.running_mean), ("running_var", &mut self.running_var)]
    }
}
