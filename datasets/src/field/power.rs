//! The power spectrum of a painted density; the other side of the tests of fields.

use super::{Complex64, Fft3, Grid};

/// Mean power of the waves with about the same wavenumber.
pub(crate) struct Bin {
    /// Mean wavenumber in h/Mpc.
    pub k: f64,
    /// Number of waves; opposite frequencies, which are one wave of a real field, both count.
    pub modes: usize,
    /// Mean power in (Mpc/h)^3.
    pub power: f64,
}

/// Power spectrum of `density` (`[D, H, W]`, in units of its mean). Bin `b` (from 1) has the integer frequencies of length
/// `[b - 1/2, b + 1/2)`. `window_power` is the power of `sinc(m / n)` for each axis that is divided out: 2 for cloud in cell.
pub(crate) fn power_spectrum(grid: Grid, density: &[f32], window_power: i32) -> Vec<Bin> {
    let n = grid.cells;
    let mean = density.iter().map(|&v| f64::from(v)).sum::<f64>() / density.len() as f64;
    let mut modes: Vec<_> = density.iter().map(|&v| Complex64::from(f64::from(v) / mean - 1.0)).collect();
    Fft3::new(n, 1).forward(&mut modes);
    let mut bins: Vec<Bin> = (0..n / 2).map(|_| Bin { k: 0.0, modes: 0, power: 0.0 }).collect();
    let sinc = |f: i64| {
        let x = std::f64::consts::PI * f as f64 / n as f64;
        if f == 0 { 1.0 } else { x.sin() / x }
    };
    for (i, mode) in modes.iter().enumerate() {
        let m = [i / n % n, i / (n * n), i % n].map(|i| grid.frequency(i));
        let length = (m.iter().map(|f| f * f).sum::<i64>() as f64).sqrt();
        let window = m.iter().map(|&f| sinc(f)).product::<f64>().powi(window_power);
        if let Some(bin) = bins.get_mut((length + 0.5) as usize) {
            bin.k += length * grid.fundamental();
            bin.modes += 1;
            bin.power += (mode / window).norm_sqr() * grid.side.powi(3);
        }
    }
    for bin in &mut bins {
        bin.k /= bin.modes as f64;
        bin.power /= bin.modes as f64;
    }
    bins.split_off(1)
}
