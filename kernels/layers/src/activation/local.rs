//! Activations over slices, in place.

use crate::Float;
use crate::simd::multiversion;

multiversion! {
    /// `y = y > 0 ? y : slope * y`; NaN stays NaN.
    pub(super) fn leaky_relu<T: Float>(slope: T, y: &mut [T]) {
        for y in y {
            *y = if *y > T::ZERO { *y } else { slope * *y };
        }
    }
}

multiversion! {
    /// `dx = sign > 0 ? dx : slope * dx`, where `sign` is the input or has its sign.
    pub(super) fn leaky_relu_gradient<T: Float>(slope: T, sign: &[T], dx: &mut [T]) {
        for (dx, &sign) in dx.iter_mut().zip(sign) {
            *dx = if sign > T::ZERO { *dx } else { slope * *dx };
        }
    }
}

/// `y = scale * tanh(y)`. Only ever applied to a handful of outputs: not vectorised.
pub(super) fn tanh<T: Float>(scale: T, y: &mut [T]) {
    for y in y {
        *y = scale * y.tanh();
    }
}

multiversion! {
    /// `dx = dx * (scale - y^2 / scale)`.
    pub(super) fn tanh_gradient<T: Float>(scale: T, y: &[T], dx: &mut [T]) {
        let inverse = T::ONE / scale;
        for (dx, &y) in dx.iter_mut().zip(y) {
            *dx = *dx * (scale - y * y * inverse);
        }
    }
}
