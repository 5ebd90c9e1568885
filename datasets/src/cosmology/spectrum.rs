//! The linear matter power spectrum today, normalised by `sigma_8`.

use std::f64::consts::PI;

use super::{Cosmology, Transfer, simpson};

/// `P(k) = A k^n_s T(k)^2` with `A` such that the rms contrast in spheres of 8 Mpc/h is `sigma_8`.
#[derive(Debug, Clone, Copy)]
pub struct LinearSpectrum {
    transfer: Transfer,
    n_s: f64,
    amplitude: f64,
}

impl LinearSpectrum {
    /// Prepares the spectrum of `cosmology` at redshift 0.
    pub fn new(cosmology: &Cosmology) -> Self {
        let mut spectrum = Self { transfer: Transfer::new(cosmology), n_s: cosmology.n_s, amplitude: 1.0 };
        spectrum.amplitude = (cosmology.sigma_8 / spectrum.rms(8.0)).powi(2);
        spectrum
    }

    /// Power in (Mpc/h)^3 at wavenumber `k` in h/Mpc; 0 at `k` = 0.
    pub fn at(&self, k: f64) -> f64 {
        if k == 0.0 { 0.0 } else { self.amplitude * k.powf(self.n_s) * self.transfer.at(k).powi(2) }
    }

    /// Rms of the density contrast in spheres of `radius` Mpc/h:
    /// `sigma^2 = Int dln k  k^3 P(k) W(kR)^2 / (2 pi^2)`.
    pub fn rms(&self, radius: f64) -> f64 {
        // Below and above these limits the integrand for radii of some Mpc/h is less than 1e-7 of the whole.
        let (low, high) = (1e-5_f64.ln(), 3e1_f64.ln());
        let integrand = |ln_k: f64| {
            let k = ln_k.exp();
            k.powi(3) * self.at(k) * top_hat(k * radius).powi(2)
        };
        (simpson(low, high, 3000, integrand) / (2.0 * PI * PI)).sqrt()
    }
}

/// Fourier transform of a sphere of radius 1 and volume 1.
fn top_hat(x: f64) -> f64 {
    // The closed form cancels badly for small x.
    if x < 1e-2 { 1.0 - x * x / 10.0 } else { 3.0 * (x.sin() - x * x.cos()) / x.powi(3) }
}
