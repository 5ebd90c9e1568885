//! Optimizer steps as plain loops in f64. Frozen: never made faster.

use super::OptimSpec;

/// One step, the `t`-th from 1 on, of one parameter. `state` holds two vectors of the parameter's length, zero before
/// the first step: momentum (SGD uses the first only), or Adam's means of gradients and of their squares.
pub fn step(spec: &OptimSpec, t: u32, value: &mut [f64], grad: &[f64], state: &mut [Vec<f64>; 2]) {
    for i in 0..value.len() {
        match *spec {
            OptimSpec::Sgd { lr, momentum, weight_decay } => {
                let g = grad[i] + weight_decay * value[i];
                state[0][i] = momentum * state[0][i] + g;
                value[i] -= lr * state[0][i];
            }
            OptimSpec::Adam { lr, beta1, beta2, eps, weight_decay } => {
                let g = grad[i] + weight_decay * value[i];
                state[0][i] = beta1 * state[0][i] + (1.0 - beta1) * g;
                state[1][i] = beta2 * state[1][i] + (1.0 - beta2) * g * g;
                let mean = state[0][i] / (1.0 - beta1.powi(t as i32));
                let square = state[1][i] / (1.0 - beta2.powi(t as i32));
                value[i] -= lr * mean / (square.sqrt() + eps);
            }
        }
    }
}
