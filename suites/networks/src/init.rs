//! Start values of parameters: a function of seed, layer and PyTorch index only, so that every grid starts alike.

use shardmark_layers::{Init, ParamSpec};
use shardmark_tensor::rng;

/// The rule for the limit of uniform start values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitScheme {
    /// `sqrt(6 / fan_in)` (Kaiming uniform; He et al. 2015, arXiv 1502.01852): keeps the signal's variance through
    /// rectifiers. With Glorot's limit it shrinks over the seven convolutions of the 2020 net, and training may stay
    /// for epochs where every prediction is the labels' mean.
    He,
    /// `sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    Glorot,
}

impl InitScheme {
    fn limit(self, fan_in: usize, fan_out: usize) -> f64 {
        let fans = match self {
            InitScheme::He => fan_in,
            InitScheme::Glorot => fan_in + fan_out,
        };
        (6.0 / fans as f64).sqrt()
    }
}

/// Start values in PyTorch's layout, rounded to f32 so that runs of every element type start from the same point.
pub fn initial_values(spec: &ParamSpec, scheme: InitScheme, seed: u64, layer: usize, param: usize) -> Vec<f64> {
    match spec.init {
        Init::Constant(value) => vec![f64::from(value as f32); spec.len()],
        Init::Uniform { fan_in, fan_out } => {
            let limit = scheme.limit(fan_in, fan_out);
            let stream = (1 << 32) + (layer * 16 + param) as u64;
            let value = |i| (2.0 * rng::uniform(seed, stream, i) - 1.0) * limit;
            (0..spec.len() as u64).map(|i| f64::from(value(i) as f32)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_the_range_of_the_scheme() {
        let init = Init::Uniform { fan_in: 24, fan_out: 72 };
        let spec = ParamSpec { name: "weight", shape: vec![100, 10], init };
        for (scheme, limit) in [(InitScheme::He, 0.5), (InitScheme::Glorot, 0.25)] {
            let values = initial_values(&spec, scheme, 1, 0, 0);
            let largest = values.iter().fold(0.0, |max: f64, value| max.max(value.abs()));
            assert!(0.99 * limit < largest && largest <= limit, "{scheme:?}: {largest}");
        }
    }
}
