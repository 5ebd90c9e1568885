//! Dense layer and flattening as plain loops in f64. Frozen: never made faster.

use shardmark_partition::Shape;

/// `y: [N, K]` of `x: [N, C]`, `weight: [K, C]`, `bias: [K]`.
pub fn forward(n: usize, c: usize, k: usize, x: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; n * k];
    for s in 0..n {
        for o in 0..k {
            y[s * k + o] = bias[o];
            for i in 0..c {
                y[s * k + o] += x[s * c + i] * weight[o * c + i];
            }
        }
    }
    y
}

/// Gradients `(dx, dweight, dbias)` of [`forward`].
pub fn backward(n: usize, c: usize, k: usize, x: &[f64], weight: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut dx, mut dweight, mut dbias) = (vec![0.0; n * c], vec![0.0; k * c], vec![0.0; k]);
    for s in 0..n {
        for o in 0..k {
            dbias[o] += dy[s * k + o];
            for i in 0..c {
                dx[s * c + i] += dy[s * k + o] * weight[o * c + i];
                dweight[o * c + i] += dy[s * k + o] * x[s * c + i];
            }
        }
    }
    (dx, dweight, dbias)
}

/// `[N, C*D*H*W]` of `x: [N, D, H, W, C]`.
pub fn flatten([n, d, h, w, c]: Shape, x: &[f64]) -> Vec<f64> {
    let volume = d * h * w;
    let mut y = vec![0.0; x.len()];
    for s in 0..n {
        for ch in 0..c {
            for at in 0..volume {
                y[(s * c + ch) * volume + at] = x[(s * volume + at) * c + ch];
            }
        }
    }
    y
}
