//! Few output channels: each sum is a dot product along the reduction.
//!
//! The other kernels keep output channels in the lanes of a vector, which is wasted where there are one to four of them:
//! the data gradient of a layer that reads an image, the classes of a segmentation. Here the lanes hold adjoining inputs
//! (taps along W and channels), and a sum over the lanes ends each output. A tile is PER outputs x OUTS channels: a step
//! loads PER vectors of inputs and OUTS of weights for their products.

use super::dispatch::Kernels;
use super::gather::Job;
use super::pack::{Aligned, Inputs};
use super::simd::Simd;
use shardmark_host::{SharedMut, Team};
use shardmark_tensor::Real;

/// Most output channels.
pub(super) const MAX_OUTS: usize = 4;
/// Vectors of inputs that make up for the sum over the lanes.
const WORTH: usize = 4;
/// Multiply-adds that are worth a part of their own.
const PART: usize = 1 << 18;

/// Weights `[row][output channel][inputs of a row]`, the inputs filled up to vectors with zeros.
pub(super) struct Dot<T> {
    weights: Aligned<T>,
    padded: usize,
}

/// Outputs of a tile, a constant step apart.
pub(super) struct DotTile<'a, T> {
    /// The first output's first input.
    pub x: *const T,
    /// Elements of x from one output to the next.
    pub x_step: usize,
    /// The first output.
    pub y: *mut T,
    /// Elements of y from one output to the next.
    pub y_step: usize,
    /// Offsets of the runs of inputs.
    pub rows: &'a [usize],
    /// Inputs of a run.
    pub run: usize,
    /// As [`Dot`] has them.
    pub weights: *const T,
    /// Start values of the channels.
    pub start: &'a [T],
    /// Results below zero are multiplied by it; at most 1.
    pub slope: T,
}

impl<T: Real> Dot<T> {
    /// For so many output channels, if that pays: it depends on the layer only.
    pub fn new(kernels: &Kernels<T>, channels: usize, inputs: &Inputs) -> Option<Self> {
        let padded = (inputs.taps * inputs.channels).next_multiple_of(kernels.lanes);
        let pays = channels <= MAX_OUTS && MAX_OUTS * channels <= kernels.lanes;
        (pays && inputs.rows * padded >= WORTH * kernels.lanes).then(|| Dot { weights: Aligned::default(), padded })
    }

    /// Takes the weights of each row, output channel, tap and input channel.
    pub fn fill(&mut self, channels: usize, inputs: &Inputs, weight: impl Fn(usize, usize, usize, usize) -> T) {
        self.weights.resize(inputs.rows * channels * self.padded);
        let lines = self.weights.as_mut_slice().chunks_exact_mut(self.padded);
        for (i, line) in lines.enumerate() {
            let (row, out) = (i / channels, i % channels);
            line.fill(T::ZERO);
            for (j, to) in line.iter_mut().take(inputs.taps * inputs.channels).enumerate() {
                *to = weight(row, out, j / inputs.channels, j % inputs.channels);
            }
        }
    }

    /// Computes a job; nobody else writes its outputs.
    ///
    /// # Safety
    /// The inputs and outputs of the job lie inside its `x` and `y`.
    pub unsafe fn gather(&self, job: &Job<T>, y: &SharedMut<T>, team: &Team) {
        let Job { kernels, sweep, x, rows, packed, slope, .. } = *job;
        let (inputs, start) = (packed.inputs, packed.starts());
        let longest = (0..4).max_by_key(|&i| sweep.extent[i]).unwrap_or(3);
        let sweep = sweep.with_last(longest);
        let [n, d, h, w] = sweep.extent;
        let by_outputs = &kernels.dot[start.len() - 1];
        let lines = n * d * h;
        let parts = (lines * w * inputs.len() * start.len() / PART).clamp(1, lines);
        team.run(parts, |_, part| {
            for line in part * lines / parts..(part + 1) * lines / parts {
                let (from, to) = sweep.line(line);
                let mut first = 0;
                while first < w {
                    // The last tile starts earlier if it would reach beyond the line, and computes some outputs again.
                    let (per, kernel) =
                        if w < by_outputs.per { (1, by_outputs.single) } else { (by_outputs.per, by_outputs.many) };
                    let here = first.min(w - per);
                    // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
                    unsafe {
                        kernel(&DotTile {
                            x: x.as_ptr().add(from + here * sweep.x_step[3]),
                            x_step: sweep.x_step[3],
                            y: y.as_mut_ptr().add(to + here * sweep.y_step[3]),
                            y_step: sweep.y_step[3],
                            rows,
                            run: inputs.taps * inputs.channels,
                            weights: self.weights.as_slice().as_ptr(),
                            start,
                            slope,
                        });
                    }
                    first += per;
                }
            }
        });
    }
}

/// Computes one tile.
///
/// # Safety
/// The CPU has S; every position that the tile describes lies inside its array, and there are OUTS start values.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd, const OUTS: usize, const PER: usize>(t: &DotTile<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut acc = [[S::zero(); PER]; OUTS];
        let (whole, tail) = (t.run / S::LANES * S::LANES, t.run % S::LANES);
        let padded = t.run.next_multiple_of(S::LANES);
        let mut w = t.weights;
        for row in t.rows {
            let x: [*const S::T; PER] = std::array::from_fn(|p| t.x.add(row + p * t.x_step));
            let mut i = 0;
            while i < whole {
                add::<S, OUTS, PER>(&mut acc, x.map(|x| S::load(x.add(i))), w.add(i), padded);
                i += S::LANES;
            }
            if tail > 0 {
                add::<S, OUTS, PER>(&mut acc, x.map(|x| S::load_first(x.add(i), tail)), w.add(i), padded);
            }
            w = w.add(OUTS * padded);
        }
        for first in (0..OUTS * PER).step_by(4) {
            let place = |i: usize| (i / OUTS, i % OUTS);
            let sums = S::sums(std::array::from_fn(|i| {
                let (p, out) = place((first + i).min(OUTS * PER - 1));
                acc[out][p]
            }));
            for (i, sum) in sums.into_iter().enumerate().take(OUTS * PER - first) {
                let (p, out) = place(first + i);
                let sum = t.start[out] + sum;
                let scaled = sum * t.slope;
                *t.y.add(p * t.y_step + out) = if scaled > sum { scaled } else { sum };
            }
        }
    }
}

/// Adds the products of a vector of each output's inputs with the weights of each channel.
///
/// # Safety
/// As for [`dot`].
#[inline(always)]
unsafe fn add<S: Simd, const OUTS: usize, const PER: usize>(
    acc: &mut [[S::V; PER]; OUTS],
    x: [S::V; PER],
    w: *const S::T,
    step: usize,
) {
    for (out, sums) in acc.iter_mut().enumerate() {
        // SAFETY: by this function's contract.
        unsafe {
            let w = S::load(w.add(out * step));
            for (sum, x) in sums.iter_mut().zip(x) {
                *sum = S::mul_add(x, w, *sum);
            }
        }
    }
}
