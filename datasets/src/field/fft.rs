//! Three-dimensional Fourier transforms of cubes: one-dimensional transforms of pencils, planes shared among threads.

use std::sync::Arc;

use rustfft::{Fft, FftPlanner};

use crate::parallel::for_planes;

/// Complex number in double precision.
pub type Complex64 = rustfft::num_complex::Complex<f64>;

/// Columns that are transformed together: one cache line of complex numbers.
const COLUMNS: usize = 4;

/// Transforms of `[n, n, n]` cubes.
///
/// Real space is `[D, H, W]`, the spectrum is `[H, D, W]`: the plane that a thread transforms last stays where it is, which
/// saves one pass over memory in each direction. Each pencil is transformed on its own, so the bits do not depend on the
/// number of threads.
pub struct Fft3 {
    n: usize,
    threads: usize,
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
    scratch: Vec<Complex64>,
}

impl Fft3 {
    /// Plans transforms of `n^3` cells on `threads` threads; holds a scratch array of 16 `n^3` bytes.
    pub fn new(n: usize, threads: usize) -> Self {
        let mut planner = FftPlanner::new();
        let (forward, inverse) = (planner.plan_fft_forward(n), planner.plan_fft_inverse(n));
        Self { n, threads, forward, inverse, scratch: vec![Complex64::default(); n * n * n] }
    }

    /// `data[D, H, W] -> sum of data e^(-i k x) / n^3` as `[H, D, W]`: the amplitudes of the waves in `data`.
    pub fn forward(&mut self, data: &mut Vec<Complex64>) {
        let scale = 1.0 / (self.n * self.n * self.n) as f64;
        let forward = Arc::clone(&self.forward);
        self.planes(data, &*forward, true);
        self.exchange(data);
        self.planes(data, &*forward, false);
        for_planes(data, self.n * self.n, self.threads, |_, plane| plane.iter_mut().for_each(|v| *v *= scale));
    }

    /// `data[H, D, W] -> sum of data e^(i k x)` as `[D, H, W]`; undoes [`Fft3::forward`].
    pub fn inverse(&mut self, data: &mut Vec<Complex64>) {
        let inverse = Arc::clone(&self.inverse);
        self.planes(data, &*inverse, false);
        self.exchange(data);
        self.planes(data, &*inverse, true);
    }

    /// Transforms the columns of every plane and, if `rows`, its rows.
    fn planes(&self, data: &mut [Complex64], fft: &dyn Fft<f64>, rows: bool) {
        let n = self.n;
        for_planes(data, n * n, self.threads, |_, plane| {
            let mut work = vec![Complex64::default(); fft.get_inplace_scratch_len()];
            if rows {
                for row in plane.chunks_exact_mut(n) {
                    fft.process_with_scratch(row, &mut work);
                }
            }
            let mut columns = vec![Complex64::default(); COLUMNS * n];
            for first in (0..n).step_by(COLUMNS) {
                let count = COLUMNS.min(n - first);
                for i in 0..n {
                    for c in 0..count {
                        columns[c * n + i] = plane[i * n + first + c];
                    }
                }
                for column in columns.chunks_exact_mut(n).take(count) {
                    fft.process_with_scratch(column, &mut work);
                }
                for i in 0..n {
                    for c in 0..count {
                        plane[i * n + first + c] = columns[c * n + i];
                    }
                }
            }
        });
    }

    /// Exchanges the two slow axes of `data`.
    fn exchange(&mut self, data: &mut Vec<Complex64>) {
        let n = self.n;
        let source = &*data;
        for_planes(&mut self.scratch, n * n, self.threads, |h, plane| {
            for (d, row) in plane.chunks_exact_mut(n).enumerate() {
                row.copy_from_slice(&source[(d * n + h) * n..][..n]);
            }
        });
        std::mem::swap(data, &mut self.scratch);
    }
}
