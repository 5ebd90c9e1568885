//! From a power spectrum to particles on a grid: Gaussian modes, displacements, densities.
//!
//! Everything lives on `n^3` cells of a periodic box and is equal to the bit for any number of threads. Real arrays are
//! `[D, H, W]`; spectra are `[H, D, W]` (see [`Fft3`]).

mod fft;
mod lattice;
mod modes;
mod paint;
#[cfg(test)]
pub(crate) mod power;
#[cfg(test)]
mod tests;

pub use fft::{Complex64, Fft3};
pub use lattice::Displacements;
pub use modes::gaussian_modes;
pub use paint::paint;

/// A periodic cube of `cells` cells a side, `side` Mpc/h long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Cells along each axis.
    pub cells: usize,
    /// Length of each axis in Mpc/h.
    pub side: f64,
}

impl Grid {
    /// Number of cells of the cube.
    pub fn volume_cells(&self) -> usize {
        self.cells.pow(3)
    }

    /// Wavenumber of the longest wave, `2 pi / side`, in h/Mpc: the unit of integer frequencies.
    pub fn fundamental(&self) -> f64 {
        2.0 * std::f64::consts::PI / self.side
    }

    /// Signed integer frequency of index `i` of an axis.
    pub fn frequency(&self, i: usize) -> i64 {
        if 2 * i <= self.cells { i as i64 } else { i as i64 - self.cells as i64 }
    }

    /// True for the frequency that is its own negative on this grid (even `cells` only).
    pub fn is_nyquist(&self, frequency: i64) -> bool {
        2 * frequency == self.cells as i64
    }
}
