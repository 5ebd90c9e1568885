//! Boxes of outputs by steps in the arrays that are read and written, and their cut into segments.

use std::ops::Range;

/// A box of outputs over N, D, H, W by steps in the arrays that are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    /// Offset of the first output's first input.
    pub x0: usize,
    /// Offset of the first output.
    pub y0: usize,
    /// Outputs.
    pub extent: [usize; 4],
    /// Elements of x from one output to the next.
    pub x_step: [usize; 4],
    /// Elements of y from one output to the next.
    pub y_step: [usize; 4],
}

impl Sweep {
    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.extent.iter().product()
    }

    /// Offsets of the last output in x and y.
    pub fn last(&self) -> (usize, usize) {
        let last =
            |base: usize, step: &[usize; 4]| base + (0..4).map(|i| (self.extent[i] - 1) * step[i]).sum::<usize>();
        (last(self.x0, &self.x_step), last(self.y0, &self.y_step))
    }

    /// The dimension along which segments of `per` outputs waste least; W if there is a choice.
    pub fn inner(&self, per: usize) -> usize {
        // Compares used / computed outputs of two dimensions as fractions.
        let computed = |e: usize| e.next_multiple_of(per);
        let mut best = 3;
        for i in [2, 1, 0] {
            let (e, b) = (self.extent[i], self.extent[best]);
            if e * computed(b) > b * computed(e) {
                best = i;
            }
        }
        best
    }

    /// Offsets in x and y of the first output of a line along the last dimension, by its number.
    pub fn line(&self, line: usize) -> (usize, usize) {
        let [_, d, h, _] = self.extent;
        let at = [line / (d * h), line / h % d, line % h];
        let offset = |base: usize, step: &[usize; 4]| base + (0..3).map(|i| at[i] * step[i]).sum::<usize>();
        (offset(self.x0, &self.x_step), offset(self.y0, &self.y_step))
    }

    /// The same box with dimension `inner` last.
    pub fn with_last(mut self, inner: usize) -> Self {
        for list in [&mut self.extent, &mut self.x_step, &mut self.y_step] {
            list[inner..].rotate_left(1);
        }
        self
    }
}

/// A few outputs a constant step apart.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// Offset of the first output's first input.
    pub x: usize,
    /// Offset of the first output.
    pub y: usize,
    /// Outputs before this one belong to another segment.
    pub from: usize,
}

/// A box as segments of `per` outputs along its last dimension. A last segment that would reach beyond the box starts
/// earlier and leaves the outputs of its predecessor alone; in a box of fewer than `per` outputs a segment is one
/// output, repeated.
pub(super) struct Segments {
    sweep: Sweep,
    pub per: usize,
    /// Segments of a line.
    per_line: usize,
    pub count: usize,
    /// Elements from one output of a segment to the next.
    pub x_step: usize,
    pub y_step: usize,
}

impl Segments {
    pub fn new(sweep: Sweep, per: usize) -> Self {
        let [n, d, h, w] = sweep.extent;
        let short = w < per;
        let per_line = if short { w } else { w.div_ceil(per) };
        let [x_step, y_step] = [sweep.x_step[3], sweep.y_step[3]].map(|step| if short { 0 } else { step });
        Segments { sweep, per, per_line, count: n * d * h * per_line, x_step, y_step }
    }

    /// Lists some of the segments.
    pub fn list(&self, range: Range<usize>, list: &mut Vec<Segment>) {
        let Segments { sweep, per, per_line, .. } = self;
        let w = sweep.extent[3];
        list.clear();
        let mut next = range.start;
        while next < range.end {
            let line = next / per_line;
            let (x, y) = sweep.line(line);
            let end = range.end.min((line + 1) * per_line);
            list.extend((next..end).map(|segment| {
                let i = segment - line * per_line;
                let (first, from) =
                    if w < *per { (i, per - 1) } else { ((i * per).min(w - per), i * per - (i * per).min(w - per)) };
                Segment { x: x + first * sweep.x_step[3], y: y + first * sweep.y_step[3], from }
            }));
            next = end;
        }
    }
}
