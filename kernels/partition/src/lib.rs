//! Where data lies and what moves: named dimensions, process grids, blocks, windows, transfers and Steps.
//!
//! Pure arithmetic on integers: nothing here allocates a tensor, talks to another rank or knows how many bytes a
//! machine has. Everything a rank needs to know about a distribution is computed from its own coordinates in constant
//! memory, so that the same code serves a run on two cores and a simulation of 65,536 ranks.
//!
//! The notation is that of named meshes: a tensor dimension is split over a set of grid axes, written
//! `x[N_n, D_d, H_h, W_w, C]`; an axis may be used for one dimension of a tensor only.

mod cover;
mod grid;
mod region;
pub mod step;
mod transfer;
mod window;

#[cfg(test)]
mod tests;

pub use cover::{Cover, Dist, DistError, Map};
pub use grid::{AxisSet, Coords, Grid, GridError, block};
pub use region::{DIMS, Dim, Region, SPATIAL, Shape, Span};
pub use transfer::{Transfer, Transfers};
pub use window::Window;
