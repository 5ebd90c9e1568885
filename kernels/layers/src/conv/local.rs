//! Convolution on blocks: forward, data gradient and weight gradient of sub-boxes in global coordinates.
//!
//! The forward pass and the data gradient are the same sweep (`gather`): a data gradient of stride s falls into s
//! classes per dimension, `(i + pad) mod s`, and each class is a dense convolution of dy with the taps of that class,
//! flipped. All positions come from the blocks' regions, so halo and border are read where they lie.

use super::dispatch::{Isa, Kernels};
use super::gather::{self, Job};
use super::pack::{Inputs, Packed};
use super::sweep::Sweep;
use super::{Conv, weights, winograd};
use shardmark_host::{PerThread, SharedMut, Team};
use shardmark_partition::{Region, Shape, Span, Window};
use shardmark_tensor::{Block, Real};

/// Weights as the kernels read them where they are packed, and the buffers of a rank.
pub struct Local<T: Real> {
    spec: Conv,
    kernels: &'static Kernels<T>,
    forward: Packed<T>,
    backward: Vec<Packed<T>>,
    gather: gather::Scratch<T>,
    weights: weights::Scratch<T>,
    rows: Vec<usize>,
    /// In place of the direct sums, where that pays.
    winograd: Winograd<T>,
    /// Factor of outputs below zero.
    slope: T,
}

/// Sums over tiles.
struct Winograd<T> {
    /// For which passes: forward, data gradient, weight gradient.
    passes: [Option<winograd::Axes>; 3],
    forward: winograd::Filter<T>,
    backward: winograd::Filter<T>,
    scratch: winograd::Scratch<T>,
    gradient: winograd::Gradient<T>,
}

/// One class of input positions along a dimension.
#[derive(Clone, Copy)]
struct Class {
    /// `(i + pad) mod stride`, and the first tap.
    first: usize,
    /// Taps `first, first + stride, ...`.
    taps: usize,
}

fn class(window: &Window, first: usize) -> Class {
    Class { first, taps: window.kernel.saturating_sub(first).div_ceil(window.stride) }
}

/// All classes of the three dimensions, in the order in which weights are packed.
fn classes(windows: &[Window; 3]) -> impl Iterator<Item = [Class; 3]> + '_ {
    let [d, h, w] = windows.map(|w| w.stride);
    (0..d * h * w)
        .map(move |i| [i / (h * w), i / w % h, i % w])
        .map(|q| std::array::from_fn(|i| class(&windows[i], q[i])))
}

impl<T: Real> Local<T> {
    /// Kernels of an available instruction set for a layer with outputs of the shape `y`, of which any part may be computed.
    pub fn new(spec: Conv, y: Shape, isa: Isa) -> Self {
        let kernels = Kernels::of(isa);
        let [d, h, w] = spec.windows;
        let passes = winograd::passes(&spec, y);
        let [direct, direct_back, _] = passes.map(|pass| pass.is_none());
        let inputs =
            Inputs { rows: d.kernel * h.kernel, taps: w.kernel, channels: spec.c, dense_w: direct && w.stride == 1 };
        Local {
            kernels,
            forward: Packed::rows(kernels, spec.k, inputs),
            backward: classes(&spec.windows).map(|class| backward(&spec, kernels, class, direct_back)).collect(),
            winograd: Winograd {
                passes,
                forward: winograd::Filter::default(),
                backward: winograd::Filter::default(),
                scratch: winograd::Scratch::default(),
                gradient: winograd::Gradient::default(),
            },
            gather: gather::Scratch::default(),
            weights: weights::Scratch::default(),
            rows: Vec::new(),
            slope: T::ONE,
            spec,
        }
    }

    /// Outputs below zero are multiplied by `slope`, between 0 and 1, from now on.
    pub fn set_slope(&mut self, slope: T) {
        self.slope = slope;
    }

    /// The weights that are given from now on are others.
    pub fn forget_weights(&mut self) {
        self.forward.forget();
        self.backward.iter_mut().for_each(Packed::forget);
        self.winograd.forward.forget();
        self.winograd.backward.forget();
    }

    /// Computes the outputs `part` with the weights `[KD, KH, KW, C, K]` and the bias `[K]`, or none; `x` covers their
    /// inputs.
    pub fn forward(&mut self, team: &Team, weight: &[T], bias: &[T], x: &Block<T>, y: &mut Block<T>, part: &Region) {
        if part.is_empty() {
            return;
        }
        y.assert_holds(part);
        let sweep = self.forward_sweep(x, y, part);
        let Local { spec, kernels, rows, forward: packed, slope, gather: scratch, .. } = self;
        let Winograd { passes, forward: filter, scratch: buffers, .. } = &mut self.winograd;
        if let Some(axes) = passes[0] {
            packed.begin(weight, bias);
            filter.prepare(kernels, packed, weight, team);
            let (first, slope) = (first(part), *slope);
            let job = winograd::Job { axes, kernels, sweep, first, x: x.data(), packed, filter, slope };
            return winograd::multiply(&job, y.data_mut(), team, buffers);
        }
        tap_rows(x, [spec.windows[0].kernel, spec.windows[1].kernel], rows);
        packed.prepare(team, weight, bias, &sweep);
        let job = Job { kernels, sweep, x: x.data(), rows, packed, weight, inner: 1, slope: *slope };
        gather::gather(&job, y.data_mut(), team, scratch);
    }

    /// Computes the input gradients `part` with the weights `[KD, KH, KW, C, K]`; `dy` covers all outputs that read them,
    /// with zeros outside the tensor.
    pub fn backward_data(&mut self, team: &Team, weight: &[T], dy: &Block<T>, dx: &mut Block<T>, part: &Region) {
        if part.is_empty() {
            return;
        }
        dx.assert_holds(part);
        let windows = self.spec.windows;
        for (q, packed) in classes(&windows).zip(&mut self.backward) {
            let dims: [(Span, Window, Class); 3] = std::array::from_fn(|i| (part.0[i + 1], windows[i], q[i]));
            let members = dims.map(|(span, window, q)| members(span, &window, q));
            if members.iter().any(|m| m.is_empty()) {
                continue;
            }
            let no_tap = q.iter().any(|q| q.taps == 0);
            let first_in: [i64; 3] = std::array::from_fn(|i| {
                if no_tap { dy.region().0[i + 1].lo } else { members[i].lo - q[i].taps as i64 + 1 }
            });
            let first_out: [i64; 3] = std::array::from_fn(|i| {
                members[i].lo * windows[i].stride as i64 + q[i].first as i64 - windows[i].pad as i64
            });
            let n = part.0[0].lo;
            let (dy_steps, dx_steps) = (dy.strides(), dx.strides());
            let sweep = Sweep {
                x0: dy.offset([n, first_in[0], first_in[1], first_in[2]]),
                y0: dx.offset([n, first_out[0], first_out[1], first_out[2]]),
                extent: [part.0[0].len(), members[0].len(), members[1].len(), members[2].len()],
                x_step: if no_tap { [0; 4] } else { [dy_steps[0], dy_steps[1], dy_steps[2], dy_steps[3]] },
                y_step: std::array::from_fn(|i| dx_steps[i] * if i == 0 { 1 } else { windows[i - 1].stride }),
            };
            let Winograd { passes, backward: filter, scratch, .. } = &mut self.winograd;
            if let Some(axes) = passes[1] {
                packed.begin(weight, &[]);
                filter.prepare(self.kernels, packed, weight, team);
                let (kernels, first) = (self.kernels, first(part));
                let job = winograd::Job { axes, kernels, sweep, first, x: dy.data(), packed, filter, slope: T::ONE };
                return winograd::multiply(&job, dx.data_mut(), team, scratch);
            }
            tap_rows(dy, if no_tap { [0; 2] } else { [q[0].taps, q[1].taps] }, &mut self.rows);
            packed.prepare(team, weight, &[], &sweep);
            let (kernels, rows) = (self.kernels, &self.rows);
            let job = Job { kernels, sweep, x: dy.data(), rows, packed, weight, inner: 1, slope: T::ONE };
            gather::gather(&job, dx.data_mut(), team, &mut self.gather);
        }
    }

    /// Overwrites `dw` (`[KD, KH, KW, C, K]`) with the sum over the outputs `part`; `x` covers their inputs.
    pub fn backward_weight(&mut self, team: &Team, x: &Block<T>, dy: &Block<T>, part: &Region, dw: &mut [T]) {
        if part.is_empty() {
            dw.fill(T::ZERO);
            return;
        }
        let sweep = self.forward_sweep(x, dy, part);
        if let Some(axes) = self.winograd.passes[2] {
            let sizes = [self.spec.c, self.spec.k];
            let place = (axes, sweep, first(part));
            let scratch = &mut self.winograd.gradient;
            return winograd::sum(self.kernels, place, x.data(), dy.data(), sizes, dw, team, scratch);
        }
        tap_rows(x, [self.spec.windows[0].kernel, self.spec.windows[1].kernel], &mut self.rows);
        let taps = self.spec.windows[2].kernel;
        let run = [taps, taps * self.spec.c];
        let k = self.spec.k;
        let Local { kernels, rows, weights: scratch, .. } = self;
        weights::sum(kernels, &sweep, x.data(), dy.data(), rows, run, k, dw, team, scratch);
    }

    /// The sweep over the outputs `part` of `y`, which read `x`.
    fn forward_sweep(&self, x: &Block<T>, y: &Block<T>, part: &Region) -> Sweep {
        let windows = &self.spec.windows;
        let first: [i64; 3] = std::array::from_fn(|i| windows[i].inputs(part.0[i + 1]).lo);
        let (x_steps, y_steps) = (x.strides(), y.strides());
        let n = part.0[0].lo;
        Sweep {
            x0: x.offset([n, first[0], first[1], first[2]]),
            y0: y.offset([n, part.0[1].lo, part.0[2].lo, part.0[3].lo]),
            extent: std::array::from_fn(|i| part.0[i].len()),
            x_step: std::array::from_fn(|i| x_steps[i] * if i == 0 { 1 } else { windows[i - 1].stride }),
            y_step: std::array::from_fn(|i| y_steps[i]),
        }
    }
}

/// Global coordinates of a box's first position along D, H and W.
fn first(part: &Region) -> [i64; 3] {
    [part.0[1].lo, part.0[2].lo, part.0[3].lo]
}

/// The weights `[KD, KH, KW, C, K]` as the data gradient of a class of input positions reads them: its taps, flipped,
/// with channels transposed.
fn backward<T: Real>(spec: &Conv, kernels: &'static Kernels<T>, class: [Class; 3], dense_w: bool) -> Packed<T> {
    let Conv { c, k, windows, .. } = *spec;
    let [_, kh, kw] = windows.map(|w| w.kernel);
    let taps = |i: usize| (0..class[i].taps).rev().map(move |t| class[i].first + t * windows[i].stride);
    let plane = |d: usize| taps(1).flat_map(move |h| taps(2).map(move |w| ((d * kh + h) * kw + w) * c * k));
    let offsets: Vec<usize> = taps(0).flat_map(plane).collect();
    let row = class[2].taps;
    let inputs = Inputs { rows: offsets.len() / row.max(1), taps: row, channels: k, dense_w };
    Packed::columns(kernels, c, inputs, offsets)
}

/// Overwrites `db` (`[K]`) with the sum of `dy` over the outputs `part`. A sum per line first, in T: few terms of like
/// size; then lines and planes in f64, each plane by one thread of the team.
pub fn backward_bias<T: Real>(team: &Team, dy: &Block<T>, part: &Region, db: &mut [T], scratch: &mut BiasScratch<T>) {
    let [n, d, h, w, _] = part.0;
    let (k, len) = (db.len(), w.len() * db.len());
    let planes = if part.is_empty() { 0 } else { n.len() * d.len() };
    let BiasScratch { planes: sums, lines } = scratch;
    lines.fit(team);
    sums.clear();
    sums.resize(planes * k, 0.0);
    let shared = SharedMut::new(sums);
    team.run(planes, |thread, plane| {
        let (n, d) = (n.lo + (plane / d.len()) as i64, d.lo + (plane % d.len()) as i64);
        // SAFETY: every plane has its own sums.
        let total = unsafe { shared.part(plane * k..(plane + 1) * k) };
        let mut line = lines.of(thread);
        for h in h.lo..h.hi {
            line.clear();
            line.resize(k, T::ZERO);
            let from = dy.offset([n, d, h, w.lo]);
            for at in dy.data()[from..][..len].chunks_exact(k) {
                line.iter_mut().zip(at).for_each(|(sum, &g)| *sum += g);
            }
            total.iter_mut().zip(&*line).for_each(|(total, sum)| *total += sum.to_f64());
        }
    });
    for (i, db) in db.iter_mut().enumerate() {
        *db = T::from_f64(sums.iter().skip(i).step_by(k).sum());
    }
}

/// Buffers of [`backward_bias`] that are kept from call to call.
#[derive(Default)]
pub struct BiasScratch<T> {
    /// `[plane][K]`.
    planes: Vec<f64>,
    lines: PerThread<Vec<T>>,
}

/// The positions of a class inside `span`, as `m` in `i = m * stride + first - pad`.
fn members(span: Span, window: &Window, class: Class) -> Span {
    let (s, shift) = (window.stride as i64, window.pad as i64 - class.first as i64);
    let up = |i: i64| (i + shift + s - 1).div_euclid(s);
    Span::new(up(span.lo), up(span.hi))
}

/// Offsets of the first input of every run `[tap along D][tap along H]`.
fn tap_rows<T: Real>(x: &Block<T>, [td, th]: [usize; 2], rows: &mut Vec<usize>) {
    let [_, step_d, step_h, ..] = x.strides();
    rows.clear();
    rows.extend((0..td * th).map(|i| i / th * step_d + i % th * step_h));
}
