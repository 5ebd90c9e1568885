//! Normalisation and its gradient on the lines of blocks.

use super::sweep::{Sweep, Walk};
use crate::Float;
use crate::simd::{in_strips, leaky, multiversion, prefetch_next_strip, strip};
use crate::store::Store;

/// What the kernels apply to each channel, over and over for a period.
#[derive(Clone, Debug, Default)]
pub(super) struct Channels<T> {
    /// Mean that normalised the batch.
    pub mean: Vec<T>,
    /// `weight / sqrt(var + eps)`.
    pub scale: Vec<T>,
    /// `bias`.
    pub shift: Vec<T>,
    /// `1/m sum dy` over the group.
    pub mean_dy: Vec<T>,
    /// `1/m sum dy*xhat / sqrt(var + eps)` over the group: multiplies `x - mean`.
    pub through: Vec<T>,
}

multiversion! {
    /// `z = (x - mean) * scale + shift`, `y = z > 0 ? z : slope * z` on a line `[W, C]`; a slope of one leaves z.
    pub(super) fn normalise<T: Float, S: Store>(channels: &Channels<T>, slope: T, sweep: Sweep, x: &[T], y: &mut [T]) {
        for walk in Walk::over(0..x.len(), sweep) {
            in_strips!(walk.width, |first, L| normalise_strip::<T, S, L>(channels, slope, walk, first, x, y));
        }
    }
}

#[inline(always)]
fn normalise_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    walk: Walk,
    first: usize,
    x: &[T],
    y: &mut [T],
) {
    let affine = Affine::<T, L>::of(channels, first);
    for at in walk.places(first) {
        let (x, y) = (&x[at..], &mut y[at..]);
        walk.ask::<T, L>(x);
        if S::FETCHES {
            prefetch_next_strip::<T, L>(y);
        }
        let z = affine.apply(strip::<T, L>(x));
        S::put(leaky(slope, z, z), y);
    }
}

/// Mean, scale and shift of a strip of channels.
pub(super) struct Affine<T, const L: usize>([[T; L]; 3]);

impl<T: Float, const L: usize> Affine<T, L> {
    #[inline(always)]
    pub fn of(channels: &Channels<T>, first: usize) -> Self {
        let Channels { mean, scale, shift, .. } = channels;
        Affine([strip(&mean[first..]), strip(&scale[first..]), strip(&shift[first..])])
    }

    #[inline(always)]
    pub fn mean(&self) -> [T; L] {
        self.0[0]
    }

    /// The output before the activation: forward and backward take its sign from the same operations.
    #[inline(always)]
    pub fn apply(&self, mut x: [T; L]) -> [T; L] {
        let [mean, scale, shift] = &self.0;
        for i in 0..L {
            x[i] = (x[i] - mean[i]) * scale[i] + shift[i];
        }
        x
    }
}

multiversion! {
    /// `dx = scale * (dz - mean_dy - (x - mean) * through)` on a line `[W, C]`; without `dy`, over the one that `dx` holds.
    pub(super) fn input_gradient<T: Float, S: Store>(
        channels: &Channels<T>,
        slope: T,
        sweep: Sweep,
        x: &[T],
        dy: Option<&[T]>,
        dx: &mut [T],
    ) {
        let dy = dy.unwrap_or_default();
        for walk in Walk::over(0..x.len(), sweep) {
            in_strips!(walk.width, |first, L| gradient_strip::<T, S, L>(channels, slope, walk, first, [x, dy], dx));
        }
    }
}

#[inline(always)]
fn gradient_strip<T: Float, S: Store, const L: usize>(
    channels: &Channels<T>,
    slope: T,
    walk: Walk,
    first: usize,
    [x, dy]: [&[T]; 2],
    dx: &mut [T],
) {
    let affine = Affine::<T, L>::of(channels, first);
    let [mean, scale, _] = affine.0;
    let (mean_dy, through) = (strip::<T, L>(&channels.mean_dy[first..]), strip::<T, L>(&channels.through[first..]));
    for at in walk.places(first) {
        let (x, dx) = (&x[at..], &mut dx[at..]);
        let dy = if dy.is_empty() { &*dx } else { &dy[at..] };
        walk.ask::<T, L>(x);
        walk.ask::<T, L>(dy);
        if S::FETCHES {
            prefetch_next_strip::<T, L>(dx);
        }
        let x = strip::<T, L>(x);
        let mut row = leaky(slope, affine.apply(x), strip::<T, L>(dy));
        for i in 0..L {
            row[i] = scale[i] * (row[i] - mean_dy[i] - (x[i] - mean[i]) * through[i]);
        }
        S::put(row, dx);
    }
}
