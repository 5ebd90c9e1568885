//! The weight gradient of three neighbouring taps at once.
//!
//! In a line of outputs along W with stride 1, the input that one output reads with its first tap is read by the one before
//! with the second and by the one before that with the third. The kernel walks along the inputs: a broadcast input serves
//! all three, with the gradients of the last three outputs in registers. One load for one multiply-add would bind it to
//! the loads where there are few output channels. Every element is summed in the order of the outputs, as by the other
//! kernel, to the same bits.

use super::super::dispatch::MAX_STREAMS;
use super::super::simd::Simd;
use super::super::tile::{TAPS, load_channels, store_channels};
use super::{Group, Line, Panels, Problem, Target};
use crate::simd::prefetch;
use shardmark_tensor::Real;

/// Outputs of the shortest line that is worth its start and end.
pub(super) const LONG: usize = 8;

/// Tiles of a group that ask for the next group's gradients output by output.
const FEW_TILES: usize = 8;

/// A tile: TAPS weights of each of some inputs, a row and a channel each, for VECS vectors of output channels.
pub(in super::super) struct TapsTile<'a, T> {
    /// The first tap's input of the output at offset 0.
    pub x: [*const T; MAX_STREAMS],
    /// The first tap's gradient.
    pub dw: [*mut T; MAX_STREAMS],
    /// Elements of x from one output to the next, and from one tap to the next.
    pub x_step: usize,
    /// Elements of dw from one tap to the next.
    pub dw_step: usize,
    /// Lines of at least two outputs.
    pub lines: &'a [Line],
    /// Their gradients `[outputs][VECS * LANES]`: in order, or where the lines say.
    pub dy: *const T,
    /// Whether they lie where the lines say.
    pub in_place: bool,
    /// Lines whose gradients are asked for meanwhile, one for each of `lines`.
    pub next: &'a [Line],
    /// Gradients of the output at offset 0.
    pub ahead: *const T,
    /// Elements from one output's gradients to the next.
    pub ahead_step: usize,
    /// The part of each line that is asked for: number and count.
    pub share: [usize; 2],
    /// Channels of the last vector that exist.
    pub tail: usize,
    /// Whether to add to dw, or to overwrite it.
    pub add: bool,
}

type Sums<V, const STREAMS: usize, const VECS: usize> = [[[V; VECS]; TAPS]; STREAMS];

/// Sums the contributions of some outputs to one tile.
///
/// # Safety
/// The CPU has S; every position that the tile describes lies inside its array.
#[inline(always)]
pub(in super::super) unsafe fn weights_taps<S: Simd, const STREAMS: usize, const VECS: usize>(t: &TapsTile<S::T>) {
    // SAFETY: by this function's contract.
    unsafe {
        // The gradient arrives in the cache while the sums are computed.
        for dw in &t.dw[..STREAMS] {
            (0..TAPS).for_each(|tap| (0..VECS).for_each(|v| prefetch(dw.wrapping_add(tap * t.dw_step + v * S::LANES))));
        }
        let x: [*const S::T; STREAMS] = std::array::from_fn(|s| t.x[s]);
        let mut acc = [[[S::zero(); VECS]; TAPS]; STREAMS];
        let mut panel = t.dy;
        for (i, line) in t.lines.iter().enumerate() {
            let mut at = line.x;
            let mut dy = if t.in_place { t.dy.add(line.y) } else { panel };
            panel = panel.wrapping_add(line.len * VECS * S::LANES);
            // More requests than lines of the cache: one for each output, which costs less than to count.
            let mut ahead = t.ahead.wrapping_add(
                t.next.get(i).map_or(0, |next| next.y + next.len * t.share[0] / t.share[1] * t.ahead_step),
            );
            let ahead_step = t.ahead_step / t.share[1];
            let mut next = || {
                prefetch(ahead);
                ahead = ahead.wrapping_add(ahead_step);
                let g: [S::V; VECS] = std::array::from_fn(|v| S::load(dy.add(v * S::LANES)));
                dy = dy.add(VECS * S::LANES);
                g
            };
            let mut step = || {
                let here = at;
                at = S::hide(at + t.x_step);
                here
            };
            // `a` is the gradient of the newest output, `b` that of the one before.
            let mut b = next();
            add_input::<S, STREAMS, VECS, 0, 1>(&mut acc, &x, step(), [b, b, b]);
            let mut a = next();
            add_input::<S, STREAMS, VECS, 0, 2>(&mut acc, &x, step(), [a, b, b]);
            let mut left = line.len - 2;
            while left >= 3 {
                let c = next();
                add_input::<S, STREAMS, VECS, 0, TAPS>(&mut acc, &x, step(), [c, a, b]);
                b = next();
                add_input::<S, STREAMS, VECS, 0, TAPS>(&mut acc, &x, step(), [b, c, a]);
                a = next();
                add_input::<S, STREAMS, VECS, 0, TAPS>(&mut acc, &x, step(), [a, b, c]);
                left -= 3;
            }
            while left > 0 {
                let c = next();
                add_input::<S, STREAMS, VECS, 0, TAPS>(&mut acc, &x, step(), [c, a, b]);
                (a, b) = (c, a);
                left -= 1;
            }
            add_input::<S, STREAMS, VECS, 1, TAPS>(&mut acc, &x, step(), [a, a, b]);
            add_input::<S, STREAMS, VECS, 2, TAPS>(&mut acc, &x, step(), [a, a, a]);
        }
        for (sums, dw) in acc.iter().zip(t.dw) {
            for (tap, &sum) in sums.iter().enumerate() {
                let at = dw.add(tap * t.dw_step);
                let mut sum = sum;
                if t.add {
                    let before = load_channels::<S, VECS>(at, t.tail);
                    sum = std::array::from_fn(|v| S::add(before[v], sum[v]));
                }
                store_channels::<S, VECS>(at, sum, t.tail);
            }
        }
    }
}

/// Adds the products of the inputs at `at` with the gradients of the outputs that read them with taps FROM to TO.
///
/// # Safety
/// As for the kernel.
#[inline(always)]
unsafe fn add_input<S: Simd, const STREAMS: usize, const VECS: usize, const FROM: usize, const TO: usize>(
    acc: &mut Sums<S::V, STREAMS, VECS>,
    x: &[*const S::T; STREAMS],
    at: usize,
    dy: [[S::V; VECS]; TAPS],
) {
    for (sums, x) in acc.iter_mut().zip(x) {
        // SAFETY: by this function's contract.
        unsafe {
            let x = S::splat(x.add(at));
            for tap in FROM..TO {
                for v in 0..VECS {
                    sums[tap][v] = S::mul_add(x, dy[tap][v], sums[tap][v]);
                }
            }
        }
    }
}

impl<T: Real> Problem<'_, T> {
    /// Whether a block of `vecs` vectors is summed by taps.
    pub(super) fn by_taps(&self, vecs: usize, lines: &[Line]) -> bool {
        self.run == TAPS * self.x_step
            && !self.kernels.weights_taps[vecs - 1].is_empty()
            && lines.iter().all(|line| line.len >= LONG)
    }

    /// Sums over one group of outputs for one block, and asks for the memory of the next group meanwhile: for
    /// its inputs if the block `leads`.
    ///
    /// # Safety
    /// As for [`Problem::sum_group`].
    pub(super) unsafe fn sum_taps(
        &self,
        group: &Group,
        target: &Target<T>,
        block: super::ChannelBlock,
        leads: bool,
        panels: &mut Panels<T>,
    ) {
        let Problem { kernels, x, dy, rows, run, x_step, y_step, blocks: super::Blocks { channels, lanes }, .. } =
            *self;
        let by_streams = kernels.weights_taps[block.vecs - 1];
        // A stream is an input channel in a row; x_step is the number of channels.
        let streams = target.rows.start * x_step..target.rows.end * x_step;
        let tiles = streams.len().div_ceil(by_streams.len());
        let share = group.share(tiles);
        let mut ahead = group.ahead();
        // The gradients of an output are few lines of the cache, and adjoin those of the next: a few tiles ask for all of
        // them, evenly. Many at once would stop the sums until all are there.
        let width = block.vecs * lanes;
        let in_place = y_step == width && block.existing(lanes) == width;
        if !in_place {
            panels.dy.resize(group.len() * width);
            // SAFETY: by this function's contract.
            unsafe { self.fill_panel(group.lines, &block, panels.dy.as_mut_slice().as_mut_ptr()) };
        }
        let dense = y_step <= width && tiles <= FEW_TILES;
        for t in 0..tiles {
            ahead.by_ref().take(share).for_each(|(line, i)| {
                if !dense {
                    self.prefetch_gradients(line, i, block.first..block.first + block.existing(lanes));
                }
                if leads {
                    self.prefetch_inputs(line, i);
                }
            });
            let first_of = |t: usize| streams.start + t * streams.len() / tiles;
            let mut tile = TapsTile {
                x: [x.as_ptr(); MAX_STREAMS],
                dw: [target.dw; MAX_STREAMS],
                x_step,
                dw_step: x_step * channels,
                lines: group.lines,
                next: if dense { group.next } else { &[] },
                ahead: dy.as_ptr(),
                ahead_step: y_step,
                share: [t, tiles],
                dy: if in_place { dy.as_ptr() } else { panels.dy.as_slice().as_ptr() },
                in_place,
                tail: block.tail,
                add: target.add,
            };
            let members = first_of(t)..first_of(t + 1);
            for (i, stream) in members.clone().enumerate() {
                let (row, channel) = (stream / x_step, stream % x_step);
                tile.x[i] = x[rows[row] + channel..].as_ptr();
                // SAFETY: an element of dw.
                tile.dw[i] = unsafe { target.dw.add((row * run + channel) * channels + block.first) };
            }
            // SAFETY: by this function's contract; the table holds kernels of an available instruction set.
            unsafe { by_streams[members.len() - 1](&tile) }
        }
    }
}
