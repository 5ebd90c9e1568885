//! Distributions and covers: what each rank owns, or needs, of a tensor.

use crate::grid::{AxisSet, Coords, Grid, block};
use crate::region::{DIMS, Dim, Region, Shape, Span};
use crate::window::Window;
use std::fmt;

/// How the dimensions of a tensor are split: for each, the grid axes whose combined index counts its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dist {
    split: [AxisSet; 5],
}

/// Why a distribution is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DistError {
    /// One grid axis splits two dimensions.
    AxisUsedTwice(Dim),
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DistError::AxisUsedTwice(axis) = self;
        write!(
            f,
            "distribution: expected each grid axis to split one dimension, got axis {} twice; drop one use",
            axis.axis_name()
        )
    }
}

impl std::error::Error for DistError {}

impl Dist {
    /// Splits dimension `DIMS[i]` over the axes `split[i]`.
    ///
    /// # Errors
    /// When an axis splits two dimensions.
    pub fn new(split: [AxisSet; 5]) -> Result<Self, DistError> {
        for axis in DIMS {
            if split.iter().filter(|s| s.has(axis)).count() > 1 {
                return Err(DistError::AxisUsedTwice(axis));
            }
        }
        Ok(Dist { split })
    }

    /// `x[N_n, D_d, H_h, W_w, C]`: samples over the axis n, space over d, h, w.
    pub fn spatial() -> Self {
        let one = |d| AxisSet::of(&[d]);
        Dist { split: [one(Dim::N), one(Dim::D), one(Dim::H), one(Dim::W), AxisSet::NONE] }
    }

    /// `x[N_ndhw, D, H, W, C]`: whole samples over all ranks, as the tail of a network wants them.
    ///
    /// The block rule nests: the samples of the ranks of one sample group are exactly that group's samples, so that
    /// going from [`Dist::spatial`] to this moves data inside groups only.
    pub fn samples() -> Self {
        let over = AxisSet::of(&[Dim::N, Dim::D, Dim::H, Dim::W]);
        Dist { split: [over, AxisSet::NONE, AxisSet::NONE, AxisSet::NONE, AxisSet::NONE] }
    }

    /// Axes that split `dim`.
    pub fn axes(&self, dim: Dim) -> AxisSet {
        self.split[dim as usize]
    }

    /// All axes in use; along the others the tensor is replicated.
    pub fn used(&self) -> AxisSet {
        self.split.iter().fold(AxisSet::NONE, |a, &b| a.union(b))
    }
}

/// How a cover's spans follow from the blocks of the dimension that is split.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Map {
    /// The block itself: ownership.
    Own,
    /// The inputs that a block of outputs reads.
    Inputs(Window),
    /// The outputs whose gradient reaches a block of inputs.
    Outputs(Window),
}

/// What each rank has or needs of one tensor: blocks of `base` under a distribution, mapped and clipped to `shape`.
///
/// `Own` on every dimension says who owns what. For the input of a convolution, `base` is the output's shape and the
/// spatial maps are `Inputs(window)`: who needs what.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cover {
    /// Extents of the tensor that is covered.
    pub shape: Shape,
    /// Extents of the tensor whose blocks define the cover.
    pub base: Shape,
    /// Distribution of `base`.
    pub dist: Dist,
    /// One map a dimension.
    pub maps: [Map; 5],
}

impl Cover {
    /// Ownership of a tensor.
    pub fn own(shape: Shape, dist: Dist) -> Self {
        Cover { shape, base: shape, dist, maps: [Map::Own; 5] }
    }

    /// What the owners of `out` (with `windows` on D, H, W) read of an input of `shape`; all channels.
    pub fn inputs(shape: Shape, out: Shape, dist: Dist, windows: [Window; 3]) -> Self {
        let [d, h, w] = windows.map(Map::Inputs);
        Cover { shape, base: [out[0], out[1], out[2], out[3], shape[4]], dist, maps: [Map::Own, d, h, w, Map::Own] }
    }

    /// The part of the output gradient (of `shape`) that the owners of the input `x` need for their data gradient.
    pub fn outputs(shape: Shape, x: Shape, dist: Dist, windows: [Window; 3]) -> Self {
        let [d, h, w] = windows.map(Map::Outputs);
        Cover { shape, base: [x[0], x[1], x[2], x[3], shape[4]], dist, maps: [Map::Own, d, h, w, Map::Own] }
    }

    /// Blocks along `dim`.
    pub fn parts(&self, grid: &Grid, dim: Dim) -> usize {
        self.dist.axes(dim).parts(grid)
    }

    /// Span of block `index` along `dim`, padding included; `lo` and `hi` do not decrease with `index`.
    fn raw(&self, grid: &Grid, dim: Dim, index: usize) -> Span {
        let own = block(self.base[dim as usize], self.parts(grid, dim), index);
        match self.maps[dim as usize] {
            Map::Own => own,
            Map::Inputs(window) => window.inputs(own),
            Map::Outputs(window) => window.outputs(own),
        }
    }

    /// Span of block `index` along `dim`; a block without elements needs nothing. `padded` keeps what lies outside.
    fn span(&self, grid: &Grid, dim: Dim, index: usize, padded: bool) -> Span {
        let raw = self.raw(grid, dim, index);
        if block(self.base[dim as usize], self.parts(grid, dim), index).is_empty() {
            return Span { lo: raw.lo, hi: raw.lo };
        }
        if padded { raw } else { raw.intersect(Span::full(self.shape[dim as usize])) }
    }

    /// The region of the rank at `coords`, inside the tensor.
    pub fn region(&self, grid: &Grid, coords: &Coords) -> Region {
        self.region_at(grid, coords, false)
    }

    /// The region of the rank at `coords` with the padding that sticks out of the tensor.
    pub fn padded(&self, grid: &Grid, coords: &Coords) -> Region {
        self.region_at(grid, coords, true)
    }

    fn region_at(&self, grid: &Grid, coords: &Coords, padded: bool) -> Region {
        Region(DIMS.map(|dim| self.span(grid, dim, self.dist.axes(dim).index(grid, coords), padded)))
    }

    /// Indices of the blocks along `dim` that may meet `target`: `[first, last)`; ends are exact, holes possible.
    pub(crate) fn blocks_meeting(&self, grid: &Grid, dim: Dim, target: Span) -> (usize, usize) {
        if target.is_empty() {
            return (0, 0);
        }
        let parts = self.parts(grid, dim);
        let first = partition_point(parts, |i| self.raw(grid, dim, i).hi <= target.lo);
        let last = partition_point(parts, |i| self.raw(grid, dim, i).lo < target.hi);
        (first, last.max(first))
    }

    pub(crate) fn block_span(&self, grid: &Grid, dim: Dim, index: usize) -> Span {
        self.span(grid, dim, index, false)
    }
}

/// First index in `0..n` where the monotone predicate is false.
fn partition_point(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let mid = lo + (hi - lo) / 2;
        if holds(mid) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    lo
}
