//! Losses on slices of equal length. Outputs are few: sums run in f64, one after the other.

use crate::Float;

/// Sum of squared errors; `dp = 2 (p - t) / count`.
pub(super) fn mse<T: Float>(p: &[T], t: &[T], dp: &mut [T], count: usize) -> f64 {
    let mut sum = 0.0;
    for ((dp, p), t) in dp.iter_mut().zip(p).zip(t) {
        let error = p.to_f64() - t.to_f64();
        sum += error * error;
        *dp = T::from_f64(2.0 * error / count as f64);
    }
    sum
}

/// Sum of absolute errors; `dp = sign(p - t) / count`, 0 where they are equal.
pub(super) fn mae<T: Float>(p: &[T], t: &[T], dp: &mut [T], count: usize) -> f64 {
    let mut sum = 0.0;
    for ((dp, p), t) in dp.iter_mut().zip(p).zip(t) {
        let error = p.to_f64() - t.to_f64();
        sum += error.abs();
        let sign = if error == 0.0 { 0.0 } else { error.signum() };
        *dp = T::from_f64(sign / count as f64);
    }
    sum
}
