//! Batch normalisation as plain loops in f64 over all positions of a group, `x: [M, C]`. Frozen: never made faster.

/// Mean and biased variance of each channel.
pub fn statistics(c: usize, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let m = (x.len() / c) as f64;
    let (mut mean, mut var) = (vec![0.0; c], vec![0.0; c]);
    for i in 0..x.len() {
        mean[i % c] += x[i] / m;
    }
    for i in 0..x.len() {
        var[i % c] += (x[i] - mean[i % c]).powi(2) / m;
    }
    (mean, var)
}

/// `y = weight * (x - mean) / sqrt(var + eps) + bias` with the statistics of `x` itself.
pub fn forward(c: usize, eps: f64, weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let (mean, var) = statistics(c, x);
    let y = |i: usize| weight[i % c] * (x[i] - mean[i % c]) / (var[i % c] + eps).sqrt() + bias[i % c];
    (0..x.len()).map(y).collect()
}

/// Gradients `(dx, dweight, dbias)` of [`forward`].
pub fn backward(c: usize, eps: f64, weight: &[f64], x: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let m = (x.len() / c) as f64;
    let (mean, var) = statistics(c, x);
    let xhat = |i: usize| (x[i] - mean[i % c]) / (var[i % c] + eps).sqrt();
    let (mut dweight, mut dbias) = (vec![0.0; c], vec![0.0; c]);
    for i in 0..x.len() {
        dweight[i % c] += dy[i] * xhat(i);
        dbias[i % c] += dy[i];
    }
    let dx = |i: usize| {
        let ch = i % c;
        weight[ch] / (var[ch] + eps).sqrt() * (dy[i] - dbias[ch] / m - xhat(i) * dweight[ch] / m)
    };
    ((0..x.len()).map(dx).collect(), dweight, dbias)
}
