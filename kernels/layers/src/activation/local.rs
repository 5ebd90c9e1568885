//! Activations over slices of equal length.

use crate::Float;
use crate::simd::{STRIP, leaky, multiversion, prefetch_next, strip};
use crate::store::Store;

multiversion! {
    /// `y = x > 0 ? x : slope * x`; NaN stays NaN.
    pub(super) fn leaky_relu<T: Float, S: Store>(slope: T, x: &[T], y: &mut [T]) {
        let whole = y.len() / STRIP * STRIP;
        for at in (0..whole).step_by(STRIP) {
            leaky_strip::<T, S, STRIP>(slope, &x[at..], &x[at..], &mut y[at..]);
        }
        for at in whole..y.len() {
            leaky_strip::<T, S, 1>(slope, &x[at..], &x[at..], &mut y[at..]);
        }
    }
}

multiversion! {
    /// The same in place.
    pub(super) fn leaky_relu_in_place<T: Float>(slope: T, y: &mut [T]) {
        for y in y {
            *y = if *y > T::ZERO { *y } else { slope * *y };
        }
    }
}

multiversion! {
    /// `dx = sign > 0 ? dy : slope * dy`, where `sign` is the input or has its sign.
    pub(super) fn leaky_relu_gradient<T: Float, S: Store>(slope: T, sign: &[T], dy: &[T], dx: &mut [T]) {
        let whole = dx.len() / STRIP * STRIP;
        for at in (0..whole).step_by(STRIP) {
            leaky_strip::<T, S, STRIP>(slope, &sign[at..], &dy[at..], &mut dx[at..]);
        }
        for at in whole..dx.len() {
            leaky_strip::<T, S, 1>(slope, &sign[at..], &dy[at..], &mut dx[at..]);
        }
    }
}

#[inline(always)]
fn leaky_strip<T: Float, S: Store, const L: usize>(slope: T, sign: &[T], values: &[T], out: &mut [T]) {
    prefetch_next(sign);
    prefetch_next(values);
    if S::FETCHES {
        prefetch_next(out);
    }
    S::put(leaky(slope, strip::<T, L>(sign), strip::<T, L>(values)), out);
}

multiversion! {
    /// The same over the `dy` that `dx` holds.
    pub(super) fn leaky_relu_gradient_in_place<T: Float>(slope: T, sign: &[T], dx: &mut [T]) {
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
