//! Dimensions, spans and regions: half-open boxes in the global coordinates of a tensor.

use std::fmt;

/// A tensor dimension, and the grid axis of the same name.
///
/// Every tensor has all five, slowest first; a 2-D image has `D = 1`, a dense tensor `D = H = W = 1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Dim {
    /// Sample (batch).
    N,
    /// Depth.
    D,
    /// Height.
    H,
    /// Width.
    W,
    /// Channel.
    C,
}

/// All dimensions, slowest first.
pub const DIMS: [Dim; 5] = [Dim::N, Dim::D, Dim::H, Dim::W, Dim::C];

/// The three spatial dimensions, slowest first.
pub const SPATIAL: [Dim; 3] = [Dim::D, Dim::H, Dim::W];

/// Global extents `[N, D, H, W, C]`.
pub type Shape = [usize; 5];

impl Dim {
    /// The letter in lower case, as grid axes are written.
    pub fn axis_name(self) -> &'static str {
        ["n", "d", "h", "w", "c"][self as usize]
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["N", "D", "H", "W", "C"][*self as usize])
    }
}

/// A half-open interval `[lo, hi)` of global indices; it may reach outside the tensor (padding).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// First index.
    pub lo: i64,
    /// One past the last index.
    pub hi: i64,
}

impl Span {
    /// `[lo, hi)`.
    pub fn new(lo: i64, hi: i64) -> Self {
        Span { lo, hi }
    }

    /// `[0, extent)`.
    pub fn full(extent: usize) -> Self {
        Span { lo: 0, hi: extent as i64 }
    }

    /// Number of indices; 0 when `hi <= lo`.
    pub fn len(self) -> usize {
        (self.hi - self.lo).max(0) as usize
    }

    /// Whether no index lies inside.
    pub fn is_empty(self) -> bool {
        self.hi <= self.lo
    }

    /// The common part; empty (with `lo == hi`) when there is none.
    pub fn intersect(self, other: Span) -> Span {
        let lo = self.lo.max(other.lo);
        Span { lo, hi: self.hi.min(other.hi).max(lo) }
    }

    /// The smallest span that holds both; an empty one adds nothing.
    pub fn hull(self, other: Span) -> Span {
        if self.is_empty() {
            other
        } else if other.is_empty() {
            self
        } else {
            Span { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
        }
    }

    /// Whether `other` lies inside; an empty span lies inside everything.
    pub fn contains(self, other: Span) -> bool {
        other.is_empty() || (self.lo <= other.lo && other.hi <= self.hi)
    }
}

/// A box of global indices over `[N, D, H, W, C]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Region(
    /// One span a dimension, in the order of [`DIMS`].
    pub [Span; 5],
);

impl Region {
    /// The whole tensor.
    pub fn full(shape: Shape) -> Self {
        Region(shape.map(Span::full))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.iter().map(|s| s.len()).product()
    }

    /// Whether it holds no element.
    pub fn is_empty(&self) -> bool {
        self.0.iter().any(|s| s.is_empty())
    }

    /// Extents of the box.
    pub fn shape(&self) -> Shape {
        self.0.map(Span::len)
    }

    /// The span of one dimension.
    pub fn span(&self, dim: Dim) -> Span {
        self.0[dim as usize]
    }

    /// The same box with another span in one dimension.
    pub fn with(mut self, dim: Dim, span: Span) -> Self {
        self.0[dim as usize] = span;
        self
    }

    /// The common box.
    pub fn intersect(&self, other: &Region) -> Region {
        Region(std::array::from_fn(|i| self.0[i].intersect(other.0[i])))
    }

    /// The smallest box that holds both; an empty one adds nothing.
    pub fn hull(&self, other: &Region) -> Region {
        if self.is_empty() {
            *other
        } else if other.is_empty() {
            *self
        } else {
            Region(std::array::from_fn(|i| self.0[i].hull(other.0[i])))
        }
    }

    /// Whether `other` lies inside; an empty region lies inside everything.
    pub fn contains(&self, other: &Region) -> bool {
        other.is_empty() || self.0.iter().zip(&other.0).all(|(a, b)| a.contains(*b))
    }

    /// `self` minus the box `inner` (which lies inside it) as disjoint boxes: at most two a dimension.
    pub fn minus(&self, inner: &Region) -> Vec<Region> {
        self.sides(inner).collect()
    }

    /// The boxes of [`Region::minus`], one after the other.
    pub fn sides(&self, inner: &Region) -> impl Iterator<Item = Region> + use<> {
        let (mut rest, inner) = (*self, *inner);
        let whole = inner.is_empty().then_some(rest);
        let cut = if inner.is_empty() { 0 } else { DIMS.len() };
        let sides = DIMS.into_iter().take(cut).flat_map(move |dim| {
            let (outer, core) = (rest.span(dim), inner.span(dim));
            let pair = [Span::new(outer.lo, core.lo), Span::new(core.hi, outer.hi)].map(|side| rest.with(dim, side));
            rest = rest.with(dim, core);
            pair
        });
        whole.into_iter().chain(sides).filter(|side| !side.is_empty())
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dim) in DIMS.iter().enumerate() {
            let s = self.0[i];
            write!(f, "{}{dim} {}..{}", if i == 0 { "" } else { ", " }, s.lo, s.hi)?;
        }
        Ok(())
    }
}
