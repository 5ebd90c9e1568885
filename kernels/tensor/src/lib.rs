//! Local arrays over global regions, deterministic fills, and comparison with a verdict.
//!
//! A [`Block`] is what one rank holds of a tensor: a dense channels-last array `[N, D, H, W, C]` that covers a region
//! of global coordinates, halo and padding margins included. Channels last, because every kernel vectorises over
//! channels and because a halo of any side then consists of contiguous runs of at least C elements.

mod block;
pub mod compare;
pub mod rng;

#[cfg(test)]
mod tests;

pub use block::{Block, Layout};

/// Element type of tensors: `f32` in runs, `f64` in oracles; narrower types can follow.
pub trait Real:
    Copy
    + Default
    + Send
    + Sync
    + PartialOrd
    + std::fmt::Debug
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Negative infinity: the border of a max pool.
    const NEG_INFINITY: Self;
    /// Distance from 1 to the next number.
    const EPSILON: f64;
    /// Bytes of an element.
    const BYTES: usize = std::mem::size_of::<Self>();
    /// Rounds from f64.
    fn from_f64(x: f64) -> Self;
    /// Widens to f64.
    fn to_f64(self) -> f64;
    /// Fused or separate multiply-add `self * a + b`, whichever the target does at full speed.
    fn mul_add_fast(self, a: Self, b: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
}

macro_rules! real {
    ($t:ty) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = <$t>::NEG_INFINITY;
            const EPSILON: f64 = <$t>::EPSILON as f64;
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn mul_add_fast(self, a: Self, b: Self) -> Self {
                self.mul_add(a, b)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                self.tanh()
            }
        }
    };
}

real!(f32);
real!(f64);
