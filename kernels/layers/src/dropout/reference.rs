//! Dropout as a plain loop in f64 over a whole tensor. Frozen: never made faster.

use shardmark_tensor::rng;

/// `y[i] = x[i] / keep` where `uniform(i) < keep`, else 0. The random numbers of a layer and step form the stream
/// `layer` of a seed that is itself a random number of the run's seed, the layer and the step.
pub fn forward(seed: u64, layer: u64, step: u64, keep: f64, x: &[f64]) -> Vec<f64> {
    let key = rng::bits(seed, layer, step);
    let kept = |i: usize| rng::uniform(key, layer, i as u64) < keep;
    x.iter().enumerate().map(|(i, &x)| if kept(i) { x / keep } else { 0.0 }).collect()
}
