//! Activations on slices of equal length.

use crate::Float;
use crate::simd::multiversion;

multiversion! {
    /// `y = x > 0 ? x : slope * x`; NaN stays NaN.
    pub(super) fn leaky_relu<T: Float>(slope: T, x: &[T], y: &mut [T]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = if x > T::ZERO { x } else { slope * x };
        }
    }
}

multiversion! {
    /// `dx = x > 0 ? dy : slope * dy`.
    pub(super) fn leaky_relu_gradient<T: Float>(slope: T, x: &[T], dy: &[T], dx: &mut [T]) {
        for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
            *dx = if x > T::ZERO { dy } else { slope * dy };
        }
    }
}

/// `y = scale * tanh(x)`. Only ever applied to a handful of outputs: not vectorised.
pub(super) fn tanh<T: Float>(scale: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = scale * x.tanh();
    }
}

multiversion! {
    /// `dx = dy * (scale - y^2 / scale)`.
    pub(super) fn tanh_gradient<T: Float>(scale: T, y: &[T], dy: &[T], dx: &mut [T]) {
        let inverse = T::ONE / scale;
        for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
            *dx = dy * (scale - y * y * inverse);
        }
    }
}
