//! Transfers: who sends which box to whom, so that what is owned reaches where it is needed.
//!
//! Halo exchange and redistribution are the same thing: the intersection of every owner's region with every needer's
//! region. Any number of owners may be involved (blocks thinner than the halo, corners, empty ranks).

use crate::cover::Cover;
use crate::grid::{AxisSet, Coords, Grid};
use crate::region::{DIMS, Region};

/// Moves a tensor from the ranks that own it (`from`) to the ranks that need it (`to`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Transfer {
    /// Ownership before.
    pub from: Cover,
    /// Needs after.
    pub to: Cover,
    /// Names the messages of this transfer; equal on both ends.
    pub key: u32,
}

impl Transfer {
    /// Boxes that the rank at `coords` sends to others, peer by peer in increasing block order.
    pub fn sends(&self, grid: &Grid, coords: &Coords) -> Transfers {
        // A needer that is replicated along an axis which splits the source needs the box at each of its coordinates.
        let copies = self.from.dist.used().minus(self.to.dist.used());
        // Where the source is replicated along an axis, each copy serves the needers at its own coordinate.
        let fixed = self.to.dist.used().minus(self.from.dist.used());
        Transfers::new(*grid, *coords, self.from.region(grid, coords), self.to, copies, fixed)
    }

    /// Boxes that the rank at `coords` receives from others.
    pub fn recvs(&self, grid: &Grid, coords: &Coords) -> Transfers {
        Transfers::new(*grid, *coords, self.to.region(grid, coords), self.from, AxisSet::NONE, AxisSet::NONE)
    }

    /// The box that stays on the rank at `coords`.
    pub fn local(&self, grid: &Grid, coords: &Coords) -> Region {
        self.from.region(grid, coords).intersect(&self.to.region(grid, coords))
    }

    /// The transfer of the adjoint: gradients of `to` flow back to `from`.
    pub fn reversed(&self, key: u32) -> Transfer {
        Transfer { from: self.to, to: self.from, key }
    }
}

/// Iterator over `(peer, box)`; holds no list of peers.
#[derive(Clone, Debug)]
pub struct Transfers {
    grid: Grid,
    own: Coords,
    mine: Region,
    theirs: Cover,
    copies: AxisSet,
    fixed: AxisSet,
    /// `[first, last)` block index on the other side for each dimension, then copies.
    range: [(usize, usize); 6],
    at: [usize; 6],
    done: bool,
}

impl Transfers {
    fn new(grid: Grid, own: Coords, mine: Region, theirs: Cover, copies: AxisSet, fixed: AxisSet) -> Self {
        let mut range = [(0, copies.parts(&grid)); 6];
        for dim in DIMS {
            range[dim as usize] =
                if mine.is_empty() { (0, 0) } else { theirs.blocks_meeting(&grid, dim, mine.span(dim)) };
        }
        let done = range.iter().any(|(a, b)| a >= b);
        Transfers { grid, own, mine, theirs, copies, fixed, range, at: range.map(|r| r.0), done }
    }

    fn advance(&mut self) {
        for i in (0..6).rev() {
            self.at[i] += 1;
            if self.at[i] < self.range[i].1 {
                return;
            }
            self.at[i] = self.range[i].0;
        }
        self.done = true;
    }

    fn current(&self) -> Option<(usize, Region)> {
        let mut coords = self.own;
        for dim in DIMS {
            self.theirs.dist.axes(dim).place(&self.grid, self.at[dim as usize], &mut coords);
        }
        self.copies.place(&self.grid, self.at[5], &mut coords);
        let moved = coords != self.own;
        if !moved || self.fixed.axes().any(|a| coords[a as usize] != self.own[a as usize]) {
            return None;
        }
        let region = Region(DIMS.map(|dim| self.theirs.block_span(&self.grid, dim, self.at[dim as usize])));
        Some((self.grid.rank(&coords), region.intersect(&self.mine)))
    }
}

impl Iterator for Transfers {
    type Item = (usize, Region);

    fn next(&mut self) -> Option<(usize, Region)> {
        while !self.done {
            let current = self.current().filter(|(_, region)| !region.is_empty());
            self.advance();
            if current.is_some() {
                return current;
            }
        }
        None
    }
}
