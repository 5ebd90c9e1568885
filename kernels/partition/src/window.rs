//! Windows: which inputs an output needs, and which outputs an input reaches, by interval arithmetic.

use crate::region::Span;

/// A sliding window along one dimension: `kernel` taps, `stride`, `pad` indices before the first input.
///
/// Output `o` reads inputs `o*stride - pad .. o*stride - pad + kernel`. The padding after the last input follows from
/// the output extent and may differ from `pad` (even kernels with "same" padding).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Taps.
    pub kernel: usize,
    /// Step of the window from one output to the next.
    pub stride: usize,
    /// Border indices before the input's first.
    pub pad: usize,
    /// Border indices after the input's last.
    pub pad_after: usize,
}

impl Window {
    /// The window of a pointwise layer: one tap.
    pub const POINT: Window = Window { kernel: 1, stride: 1, pad: 0, pad_after: 0 };

    /// A window with equal padding on both sides.
    pub const fn new(kernel: usize, stride: usize, pad: usize) -> Self {
        Window { kernel, stride, pad, pad_after: pad }
    }

    /// Outputs over `extent` inputs; `None` when the window does not fit once.
    pub fn out_extent(&self, extent: usize) -> Option<usize> {
        let padded = extent + self.pad + self.pad_after;
        padded.checked_sub(self.kernel).map(|rest| rest / self.stride + 1)
    }

    /// Inputs that the outputs `[out.lo, out.hi)` read, padding included.
    pub fn inputs(&self, out: Span) -> Span {
        let (k, s, p) = (self.kernel as i64, self.stride as i64, self.pad as i64);
        Span { lo: out.lo * s - p, hi: (out.hi - 1) * s - p + k }
    }

    /// Outputs that read any of the inputs `[x.lo, x.hi)`, not clipped to the output's extent.
    pub fn outputs(&self, x: Span) -> Span {
        let (k, s, p) = (self.kernel as i64, self.stride as i64, self.pad as i64);
        // o*s - p <= x < o*s - p + k
        Span { lo: (x.lo + p - k + 1 + s - 1).div_euclid(s), hi: (x.hi - 1 + p).div_euclid(s) + 1 }
    }

    /// Outputs of which every input lies inside `x`: the interior, which needs no halo.
    pub fn interior(&self, x: Span) -> Span {
        let (k, s, p) = (self.kernel as i64, self.stride as i64, self.pad as i64);
        let lo = (x.lo + p + s - 1).div_euclid(s);
        Span { lo, hi: ((x.hi + p - k).div_euclid(s) + 1).max(lo) }
    }

    /// Inputs whose every reader lies inside the outputs `y`: their gradient needs no halo.
    pub fn interior_inputs(&self, y: Span) -> Span {
        let (k, s, p) = (self.kernel as i64, self.stride as i64, self.pad as i64);
        let lo = (y.lo - 1) * s - p + k;
        Span { lo, hi: (y.hi * s - p).max(lo) }
    }
}
