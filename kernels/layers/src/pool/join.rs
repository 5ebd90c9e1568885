//! How the values of a window become one, and the division of an average.

use super::Pool;
use crate::Float;
use crate::conv::Isa;

/// How the values of a window become one.
pub(super) trait Join {
    /// Joins two values; `a` comes first in the window.
    fn join<T: Float>(a: T, b: T) -> T;
    /// The result of a window of so many values.
    fn finish<T: Float>(joined: T, taps: &Taps<T>) -> T;
}

/// The number of taps, to divide by.
#[derive(Clone, Copy)]
pub(super) struct Taps<T> {
    count: T,
    inverse: T,
    /// Whether the kernels are compiled with fused multiply-adds.
    fused: bool,
}

impl<T: Float> Taps<T> {
    pub fn new(pool: &Pool) -> Self {
        let count = T::from_f64(pool.taps() as f64);
        Taps { count, inverse: T::ONE / count, fused: Isa::selected() != Isa::Portable }
    }

    /// The quotient as division rounds it, at a fraction of its time: the nearest reciprocal gives it but for the last bit,
    /// which the remainder corrects (Markstein 1990, IBM J. Res. Dev. 34, 111). Of what is infinite it makes NaN.
    #[inline(always)]
    fn divide(&self, sum: T) -> T {
        if !self.fused {
            return sum / self.count;
        }
        let quotient = sum * self.inverse;
        let remainder = (-quotient).mul_add_fast(self.count, sum);
        remainder.mul_add_fast(self.inverse, quotient)
    }
}

/// Average pooling, and its gradient.
pub(super) struct Mean;

/// Max pooling.
pub(super) struct Max;

impl Join for Mean {
    #[inline(always)]
    fn join<T: Float>(a: T, b: T) -> T {
        a + b
    }

    #[inline(always)]
    fn finish<T: Float>(joined: T, taps: &Taps<T>) -> T {
        taps.divide(joined)
    }
}

impl Join for Max {
    #[inline(always)]
    fn join<T: Float>(a: T, b: T) -> T {
        if beats(b, a) { b } else { a }
    }

    #[inline(always)]
    fn finish<T: Float>(joined: T, _taps: &Taps<T>) -> T {
        joined
    }
}

/// Whether `b`, later in the window, replaces the maximum `a`. NaN wins, as in PyTorch: a net that diverged shows it.
#[inline(always)]
#[allow(clippy::eq_op)]
pub(super) fn beats<T: Float>(b: T, a: T) -> bool {
    (b > a) | (b != b)
}
