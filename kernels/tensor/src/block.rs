//! One rank's part of a tensor with its margins, addressed in global coordinates.

use crate::Real;
use ndarray::{ArrayView5, ArrayViewMut5};
use shardmark_partition::{Region, Shape};
use std::ops::Range;

/// A dense `[N, D, H, W, C]` array over `region` (global coordinates, margins included).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Block<T> {
    region: Region,
    data: Vec<T>,
}

/// Where a block's elements lie: all of a block but its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    region: Region,
    strides: [usize; 5],
}

impl Layout {
    /// The layout of a block over `region`.
    pub fn new(region: Region) -> Self {
        let [_, d, h, w, c] = region.shape();
        Layout { region, strides: [d * h * w * c, h * w * c, w * c, c, 1] }
    }

    /// Offset of the first channel at the global position `[n, d, h, w]`, which must lie inside the region.
    ///
    /// # Panics
    /// If it lies before the region. Kernels rely on that: they ask for the first position, and check the last against the
    /// length of the data, before they access what lies between without checks.
    #[inline(always)]
    pub fn offset(&self, at: [i64; 4]) -> usize {
        let [n, d, h, w] = std::array::from_fn(|i| at[i] - self.region.0[i].lo);
        // The sign of any is the sign of all or-ed.
        assert!(n | d | h | w >= 0, "{at:?} lies in {}", self.region);
        let [sn, sd, sh, sw, _] = self.strides;
        n as usize * sn + d as usize * sd + h as usize * sh + w as usize * sw
    }

    /// Strides `[N, D, H, W, C]` in elements.
    pub fn strides(&self) -> [usize; 5] {
        self.strides
    }

    /// Contiguous runs of the box `part`, in row-major order.
    fn for_each_run(&self, part: &Region, mut visit: impl FnMut(Range<usize>)) {
        if part.is_empty() {
            return;
        }
        debug_assert!(self.region.contains(part), "{part} lies inside {}", self.region);
        let (c, all) = (part.0[4], self.region.0[4]);
        if c == all {
            let n = part.0[3].len() * c.len();
            for_each_line(part, |at| {
                let o = self.offset(at);
                visit(o..o + n);
            });
        } else {
            let first = (c.lo - all.lo) as usize;
            for_each_row(part, |at| {
                let o = self.offset(at) + first;
                visit(o..o + c.len());
            });
        }
    }
}

impl<T: Real> Block<T> {
    /// All zeros over `region`.
    pub fn zeros(region: Region) -> Self {
        Block { region, data: vec![T::ZERO; region.len()] }
    }

    /// Takes `data`, row-major over `region`.
    ///
    /// # Panics
    /// If the lengths differ: the caller computed both.
    pub fn from_vec(region: Region, data: Vec<T>) -> Self {
        assert_eq!(data.len(), region.len(), "data of a block over {region}");
        Block { region, data }
    }

    /// Vouches that `part` lies inside: kernels share such a part among threads, and lines of another would overlap.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_holds(&self, part: &Region) {
        assert!(self.region.contains(part), "{part} lies inside {}", self.region);
    }

    /// The elements, row-major.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// Values from a function of the global index `[n, d, h, w, c]`.
    pub fn from_fn(region: Region, mut value: impl FnMut([i64; 5]) -> T) -> Self {
        let mut data = Vec::with_capacity(region.len());
        for_each_row(&region, |[n, d, h, w]| {
            let c = region.0[4];
            data.extend((c.lo..c.hi).map(|c| value([n, d, h, w, c])));
        });
        Block { region, data }
    }

    /// The region that is covered, margins included.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Extents of the array.
    pub fn shape(&self) -> Shape {
        self.region.shape()
    }

    /// All elements, row-major.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All elements, row-major.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Where the elements lie.
    pub fn layout(&self) -> Layout {
        Layout::new(self.region)
    }

    /// Strides `[N, D, H, W, C]` in elements.
    pub fn strides(&self) -> [usize; 5] {
        self.layout().strides()
    }

    /// Offset of the first channel at the global position `[n, d, h, w]`, which must lie inside the region.
    #[inline]
    pub fn offset(&self, at: [i64; 4]) -> usize {
        self.layout().offset(at)
    }

    /// The channels at a global position.
    pub fn channels(&self, at: [i64; 4]) -> &[T] {
        let o = self.offset(at);
        &self.data[o..o + self.region.0[4].len()]
    }

    /// A view as an n-dimensional array; index 0 is the region's first.
    pub fn view(&self) -> ArrayView5<'_, T> {
        ArrayView5::from_shape(self.shape(), &self.data).expect("a block's data has its shape's length")
    }

    /// A mutable view as an n-dimensional array.
    pub fn view_mut(&mut self) -> ArrayViewMut5<'_, T> {
        let shape = self.shape();
        ArrayViewMut5::from_shape(shape, &mut self.data).expect("a block's data has its shape's length")
    }

    /// Copies the box `part` (inside the region) into a new row-major vector.
    pub fn pack(&self, part: &Region) -> Vec<T> {
        let mut out = Vec::with_capacity(part.len());
        self.pack_into(part, &mut out);
        out
    }

    /// The same, at the end of a vector.
    pub fn pack_into(&self, part: &Region, out: &mut Vec<T>) {
        self.layout().for_each_run(part, |run| out.extend_from_slice(&self.data[run]));
    }

    /// Overwrites the box `part` with `values` in row-major order.
    pub fn unpack(&mut self, part: &Region, values: &[T]) {
        let mut rest = values;
        self.layout().for_each_run(part, |run| {
            let (values, tail) = rest.split_at(run.len());
            self.data[run].copy_from_slice(values);
            rest = tail;
        });
    }

    /// Adds `values` in row-major order to the box `part`.
    pub fn add(&mut self, part: &Region, values: &[T]) {
        let mut rest = values;
        self.layout().for_each_run(part, |run| {
            let (values, tail) = rest.split_at(run.len());
            self.data[run].iter_mut().zip(values).for_each(|(x, &v)| *x += v);
            rest = tail;
        });
    }

    /// Copies the box `part`, which lies inside both regions, from `source`.
    pub fn copy_from(&mut self, source: &Block<T>, part: &Region) {
        if part.is_empty() {
            return;
        }
        let run = source.region.0[4];
        assert!(run == self.region.0[4] && run == part.0[4], "a copy takes all channels");
        let n = part.0[3].len() * run.len();
        let (to, from) = (self.layout(), source.layout());
        for_each_line(part, |at| {
            let (to, from) = (to.offset(at), from.offset(at));
            self.data[to..to + n].copy_from_slice(&source.data[from..from + n]);
        });
    }

    /// Sets everything outside `inside` to `value`: the border that a consumer reads.
    pub fn fill_outside(&mut self, inside: &Region, value: T) {
        let core = self.region.intersect(inside);
        for side in self.region.sides(&core) {
            self.fill(&side, value);
        }
    }

    /// Sets the box `part` (inside the region) to `value`.
    pub fn fill(&mut self, part: &Region, value: T) {
        self.layout().for_each_run(part, |run| self.data[run].fill(value));
    }
}

/// Visits `[n, d, h, w.lo]` for every line along W of a box.
fn for_each_line(part: &Region, mut visit: impl FnMut([i64; 4])) {
    let [n, d, h, w, _] = part.0;
    for n in n.lo..n.hi {
        for d in d.lo..d.hi {
            for h in h.lo..h.hi {
                visit([n, d, h, w.lo]);
            }
        }
    }
}

/// Visits every position `[n, d, h, w]` of a box.
fn for_each_row(part: &Region, mut visit: impl FnMut([i64; 4])) {
    let w = part.0[3];
    for_each_line(part, |[n, d, h, _]| (w.lo..w.hi).for_each(|w| visit([n, d, h, w])));
}
