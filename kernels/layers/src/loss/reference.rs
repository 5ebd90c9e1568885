//! Losses as plain loops in f64 over the global batch. Frozen: never made faster.

/// Mean squared error and its gradient with respect to `pred`.
pub fn mse(pred: &[f64], target: &[f64]) -> (f64, Vec<f64>) {
    let m = pred.len() as f64;
    let loss = pred.iter().zip(target).map(|(p, t)| (p - t) * (p - t)).sum::<f64>() / m;
    (loss, pred.iter().zip(target).map(|(p, t)| 2.0 * (p - t) / m).collect())
}

/// Mean absolute error and its gradient with respect to `pred`, 0 where they are equal.
pub fn mae(pred: &[f64], target: &[f64]) -> (f64, Vec<f64>) {
    let m = pred.len() as f64;
    let loss = pred.iter().zip(target).map(|(p, t)| (p - t).abs()).sum::<f64>() / m;
    let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    (loss, pred.iter().zip(target).map(|(p, t)| sign(p - t) / m).collect())
}
