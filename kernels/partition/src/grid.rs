//! Process grids: ranks laid out over named axes, and the block rule.

use crate::region::{DIMS, Dim, Span};
use std::fmt;
use std::str::FromStr;

/// Coordinates of a rank on the axes `[n, d, h, w, c]`.
pub type Coords = [usize; 5];

/// Block `index` of `extent` indices over `parts`: `[floor(i n / p), floor((i+1) n / p))`.
///
/// The same rule holds for every tensor on its own extent. Unlike "the first r blocks get one more", it keeps the
/// blocks of a strided layer's input and output aligned to within two planes. Blocks are empty when `parts > extent`.
pub fn block(extent: usize, parts: usize, index: usize) -> Span {
    Span { lo: (index * extent / parts) as i64, hi: ((index + 1) * extent / parts) as i64 }
}

/// A process grid over sample x depth x height x width (x channel), row-major: the ranks of one sample adjoin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grid {
    parts: Coords,
}

/// Why a grid is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GridError {
    /// The text is not `NxDxHxW` or `NxDxHxWxC` with positive integers.
    Syntax(String),
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GridError::Syntax(text) = self;
        write!(f, "process grid: expected NxDxHxW with positive parts, got '{text}'; write for example 1x2x2x1")
    }
}

impl std::error::Error for GridError {}

impl Grid {
    /// A grid with `parts[axis]` ranks along each axis.
    ///
    /// # Panics
    /// If an axis has no part: a grid is built from checked text or from a factorisation.
    pub fn new(parts: Coords) -> Self {
        assert!(parts.iter().all(|&p| p > 0), "a process grid has at least one part on every axis");
        Grid { parts }
    }

    /// The grid of one rank.
    pub fn single() -> Self {
        Grid { parts: [1; 5] }
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.parts.iter().product()
    }

    /// Ranks along one axis.
    pub fn parts(&self, axis: Dim) -> usize {
        self.parts[axis as usize]
    }

    /// Coordinates of `rank`.
    pub fn coords(&self, rank: usize) -> Coords {
        let mut rest = rank;
        let mut coords = [0; 5];
        for i in (0..5).rev() {
            coords[i] = rest % self.parts[i];
            rest /= self.parts[i];
        }
        coords
    }

    /// The rank at `coords`.
    pub fn rank(&self, coords: &Coords) -> usize {
        coords.iter().zip(&self.parts).fold(0, |rank, (&x, &p)| rank * p + x)
    }

    /// Every grid of `ranks` ranks over the axes n, d, h, w: all ordered factorisations into four.
    pub fn factorisations(ranks: usize) -> Vec<Grid> {
        let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let mut grids = Vec::new();
        for n in divisors(ranks) {
            for d in divisors(ranks / n) {
                for h in divisors(ranks / n / d) {
                    grids.push(Grid { parts: [n, d, h, ranks / n / d / h, 1] });
                }
            }
        }
        grids
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [n, d, h, w, c] = self.parts;
        write!(f, "{n}x{d}x{h}x{w}")?;
        if c > 1 { write!(f, "x{c}") } else { Ok(()) }
    }
}

impl FromStr for Grid {
    type Err = GridError;

    fn from_str(text: &str) -> Result<Self, GridError> {
        let syntax = || GridError::Syntax(text.to_string());
        let parts: Vec<usize> =
            text.split('x').map(|p| p.parse().ok().filter(|&p| p > 0).ok_or_else(syntax)).collect::<Result<_, _>>()?;
        let fits = parts.iter().try_fold(1usize, |product, &p| product.checked_mul(p)).is_some();
        match (parts.as_slice(), fits) {
            (&[n, d, h, w], true) => Ok(Grid { parts: [n, d, h, w, 1] }),
            (&[n, d, h, w, c], true) => Ok(Grid { parts: [n, d, h, w, c] }),
            _ => Err(syntax()),
        }
    }
}

/// A set of grid axes; where an index over several axes is needed it is row-major in the order of [`DIMS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct AxisSet(u8);

impl AxisSet {
    /// No axis: a group of one rank, a dimension that is not split.
    pub const NONE: AxisSet = AxisSet(0);
    /// Every axis: the group of all ranks.
    pub const ALL: AxisSet = AxisSet(0b11111);
    /// Depth, height and width: the ranks that share a sample.
    pub const SPATIAL: AxisSet = AxisSet(0b01110);

    /// The set of these axes.
    pub fn of(axes: &[Dim]) -> Self {
        AxisSet(axes.iter().fold(0, |bits, &a| bits | 1 << a as u8))
    }

    /// Whether `axis` is in the set.
    pub fn has(self, axis: Dim) -> bool {
        self.0 & (1 << axis as u8) != 0
    }

    /// Axes in either set.
    pub fn union(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 | other.0)
    }

    /// Axes of `self` that are not in `other`.
    pub fn minus(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & !other.0)
    }

    /// Whether some axis is in both sets.
    pub fn meets(self, other: AxisSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The axes, slowest first.
    pub fn axes(self) -> impl Iterator<Item = Dim> {
        DIMS.into_iter().filter(move |&d| self.has(d))
    }

    /// Number of ranks in a group that varies along these axes.
    pub fn parts(self, grid: &Grid) -> usize {
        self.axes().map(|a| grid.parts(a)).product()
    }

    /// Row-major index of `coords` along these axes.
    pub fn index(self, grid: &Grid, coords: &Coords) -> usize {
        self.axes().fold(0, |i, a| i * grid.parts(a) + coords[a as usize])
    }

    /// Sets the coordinates of these axes to those of `index`; the inverse of [`AxisSet::index`].
    pub fn place(self, grid: &Grid, index: usize, coords: &mut Coords) {
        let mut rest = index;
        for axis in DIMS.into_iter().rev().filter(|&a| self.has(a)) {
            coords[axis as usize] = rest % grid.parts(axis);
            rest /= grid.parts(axis);
        }
    }
}

impl fmt::Display for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == AxisSet::NONE {
            return f.write_str("none");
        }
        self.axes().try_for_each(|a| f.write_str(a.axis_name()))
    }
}
