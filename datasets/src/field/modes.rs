//! A Gaussian random field, drawn wave by wave.

use std::f64::consts::TAU;

use super::{Complex64, Grid};
use crate::parallel::for_planes;
use crate::random::{Stream, uniforms};

/// Amplitudes `[H, D, W]` of the waves of a real Gaussian field with power spectrum `power` ((Mpc/h)^3 at h/Mpc).
///
/// A wave's amplitude is a function of `seed` and its integer frequencies alone: grids of different sizes over the same box
/// share their long waves. The mean and the waves at a Nyquist frequency, which have no derivative on the grid, are 0.
pub fn gaussian_modes(grid: Grid, power: impl Fn(f64) -> f64, seed: u64, threads: usize) -> Vec<Complex64> {
    let n = grid.cells;
    let rms = rms_by_square(grid, power);
    let mut modes = vec![Complex64::default(); grid.volume_cells()];
    for_planes(&mut modes, n * n, threads, |h, plane| {
        for (d, row) in plane.chunks_exact_mut(n).enumerate() {
            for (w, mode) in row.iter_mut().enumerate() {
                let m = [grid.frequency(d), grid.frequency(h), grid.frequency(w)];
                if !m.iter().any(|&f| grid.is_nyquist(f)) {
                    *mode = unit_mode(m, seed) * rms[square(m)];
                }
            }
        }
    });
    modes
}

/// Rms amplitude `sqrt(P(k) / V)` of a wave by the square of its integer frequency.
fn rms_by_square(grid: Grid, power: impl Fn(f64) -> f64) -> Vec<f64> {
    let half = grid.cells / 2;
    let volume = grid.side.powi(3);
    let rms = |m2: usize| (power(grid.fundamental() * (m2 as f64).sqrt()) / volume).sqrt();
    (0..=3 * half * half).map(|m2| if m2 == 0 { 0.0 } else { rms(m2) }).collect()
}

fn square(m: [i64; 3]) -> usize {
    m.iter().map(|f| (f * f) as usize).sum()
}

/// A complex Gaussian number of variance 1; opposite frequencies have conjugate values, which makes the field real.
fn unit_mode(m: [i64; 3], seed: u64) -> Complex64 {
    let drawn = m > [0, 0, 0];
    let counter = m.map(|f| if drawn { f as u32 } else { -f as u32 });
    let [u, v] = uniforms(seed, counter, Stream::Modes);
    // Box-Muller; the squared modulus of a mode is exponential with mean 1.
    let mode = Complex64::from_polar((-u.ln()).sqrt(), TAU * v);
    if drawn { mode } else { mode.conj() }
}
