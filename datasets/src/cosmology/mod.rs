//! A flat universe of matter and a cosmological constant: its parameters, linear power spectrum and growth.
//!
//! Lengths are comoving Mpc/h, wavenumbers h/Mpc, and the growth factor is 1 today.

mod growth;
mod spectrum;
mod transfer;

#[cfg(test)]
mod tests;

pub use growth::{growth_factor, second_order_growth};
pub use spectrum::LinearSpectrum;
pub use transfer::Transfer;

/// Baryon density in units of the critical density, the same for every simulated universe (the fiducial value of the
/// Quijote simulations, Villaescusa-Navarro et al. 2020, table 1).
pub const OMEGA_B: f64 = 0.049;

/// Temperature of the microwave background today in K (Fixsen 2009).
pub const T_CMB: f64 = 2.7255;

/// The parameters of one universe: the first three and `h` are what a network predicts, the baryon density is fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cosmology {
    /// Matter density (dark matter and baryons) in units of the critical density; the rest is a cosmological constant.
    pub omega_m: f64,
    /// Rms of the linear density contrast today in spheres of radius 8 Mpc/h.
    pub sigma_8: f64,
    /// Slope of the primordial power spectrum.
    pub n_s: f64,
    /// Hubble constant in units of 100 km/s/Mpc.
    pub h: f64,
    /// Baryon density in units of the critical density.
    pub omega_b: f64,
}

impl Cosmology {
    /// The universe with parameters `[omega_m, sigma_8, n_s, h]` and the fixed baryon density [`OMEGA_B`].
    pub fn new([omega_m, sigma_8, n_s, h]: [f64; 4]) -> Self {
        Self { omega_m, sigma_8, n_s, h, omega_b: OMEGA_B }
    }

    /// Hubble rate at scale factor `a` in units of today's: `E(a)^2 = omega_m a^-3 + 1 - omega_m`.
    pub fn hubble(&self, a: f64) -> f64 {
        (self.omega_m / (a * a * a) + 1.0 - self.omega_m).sqrt()
    }

    /// Share of matter in the total density at scale factor `a`.
    pub fn matter_share(&self, a: f64) -> f64 {
        self.omega_m / (a * a * a * self.hubble(a).powi(2))
    }
}

/// Simpson's rule for `f` over `[from, to]` with `intervals` (even) equal steps.
fn simpson(from: f64, to: f64, intervals: usize, f: impl Fn(f64) -> f64) -> f64 {
    let step = (to - from) / intervals as f64;
    let inner: f64 = (1..intervals).map(|i| (2 + 2 * (i % 2)) as f64 * f(from + i as f64 * step)).sum();
    (f(from) + inner + f(to)) * step / 3.0
}
