//! Start values of parameters: a function of seed, layer and PyTorch index only, so that every grid starts alike.

use shardmark_layers::{Init, ParamSpec};
use shardmark_tensor::rng;

/// Start values in PyTorch's layout, rounded to f32 so that runs of every element type start from the same point.
pub fn initial_values(spec: &ParamSpec, seed: u64, layer: usize, param: usize) -> Vec<f64> {
    match spec.init {
        Init::Constant(value) => vec![f64::from(value as f32); spec.len()],
        Init::GlorotUniform { fan_in, fan_out } => {
            let limit = (6.0 / (fan_in + fan_out) as f64).sqrt();
            let stream = (1 << 32) + (layer * 16 + param) as u64;
            let value = |i| (2.0 * rng::uniform(seed, stream, i) - 1.0) * limit;
            (0..spec.len() as u64).map(|i| f64::from(value(i) as f32)).collect()
        }
    }
}
