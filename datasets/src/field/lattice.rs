//! Lagrangian perturbation theory: where the particles of a regular lattice move, to second order.

use super::{Complex64, Fft3, Grid};
use crate::parallel::for_planes;

/// Displacements of the `n^3` particles that start at the lower corners of the cells, in cells, for a growth factor of 1.
///
/// With the linear contrast `delta = laplace phi1`, a particle moves by `-D grad phi1 + D2 grad phi2` where
/// `laplace phi2 = sum over i < j of phi1_ii phi1_jj - phi1_ij^2` (Bouchet et al. 1995; Scoccimarro 1998, appendix D1).
pub struct Displacements {
    grid: Grid,
    /// By axis D, H, W and particle `[D, H, W]`: first and second order.
    by_axis: [Vec<[f32; 2]>; 3],
}

impl Displacements {
    /// Displacements of the field with amplitudes `modes` (`[H, D, W]`, as of [`super::gaussian_modes`]).
    ///
    /// Takes seven complex transforms: real fields travel in pairs, as real and imaginary parts.
    pub fn new(grid: Grid, modes: &[Complex64], fft: &mut Fft3, threads: usize) -> Self {
        let mut work = vec![Complex64::default(); grid.volume_cells()];
        let source = second_order_source(grid, modes, fft, threads, &mut work);
        let by_axis = [0, 1, 2].map(|axis| {
            map_modes(grid, &mut work, threads, |k, k2, i| {
                let along = k[axis] / k2;
                (Complex64::I * modes[i] + source[i]) * along
            });
            fft.inverse(&mut work);
            let cells = grid.cells as f64 / grid.side;
            work.iter().map(|v| [(v.re * cells) as f32, (v.im * cells) as f32]).collect()
        });
        Self { grid, by_axis }
    }

    /// The grid of the particles.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Displacement along `axis` (0..3 for D, H, W), in cells, of particle `index` for growth factors `[D, D2]`.
    pub fn at(&self, axis: usize, index: usize, growth: [f64; 2]) -> f64 {
        let [first, second] = self.by_axis[axis][index];
        growth[0] * f64::from(first) + growth[1] * f64::from(second)
    }
}

/// Amplitudes of `laplace phi2`.
fn second_order_source(
    grid: Grid,
    modes: &[Complex64],
    fft: &mut Fft3,
    threads: usize,
    work: &mut Vec<Complex64>,
) -> Vec<Complex64> {
    // phi_ij has amplitude k_i k_j delta / k^2.
    let mut second_derivatives = |work: &mut Vec<Complex64>, [a, b]: [usize; 2], [c, d]: [usize; 2]| {
        map_modes(grid, work, threads, |k, k2, i| modes[i] * Complex64::new(k[a] * k[b], k[c] * k[d]) / k2);
        fft.inverse(work);
    };
    second_derivatives(work, [0, 0], [1, 1]);
    // Real part: the source so far; imaginary part: the trace so far.
    let mut source: Vec<Complex64> = work.iter().map(|v| Complex64::new(v.re * v.im, v.re + v.im)).collect();
    second_derivatives(work, [2, 2], [0, 1]);
    for (s, v) in source.iter_mut().zip(&*work) {
        s.re += v.re * s.im - v.im * v.im;
    }
    second_derivatives(work, [0, 2], [1, 2]);
    for (s, v) in source.iter_mut().zip(&*work) {
        *s = Complex64::from(s.re - v.re * v.re - v.im * v.im);
    }
    fft.forward(&mut source);
    source
}

/// Sets every amplitude of `out` (`[H, D, W]`) to `f(wave vector, its square, index)`, in h/Mpc; 0 for the mean and the
/// waves at a Nyquist frequency.
fn map_modes(grid: Grid, out: &mut [Complex64], threads: usize, f: impl Fn([f64; 3], f64, usize) -> Complex64 + Sync) {
    let n = grid.cells;
    let unit = grid.fundamental();
    for_planes(out, n * n, threads, |h, plane| {
        for d in 0..n {
            for w in 0..n {
                let m = [grid.frequency(d), grid.frequency(h), grid.frequency(w)];
                let kept = m != [0, 0, 0] && !m.iter().any(|&f| grid.is_nyquist(f));
                let k = m.map(|f| f as f64 * unit);
                let k2 = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
                plane[d * n + w] = if kept { f(k, k2, (h * n + d) * n + w) } else { Complex64::default() };
            }
        }
    });
}
