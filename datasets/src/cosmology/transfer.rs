//! The matter transfer function of Eisenstein & Hu 1998 (ApJ 496, 605), with acoustic oscillations.

use std::f64::consts::E;

use super::{Cosmology, T_CMB};

/// The numbers of the fit that depend on the cosmology alone. Equation numbers are those of the paper; wavenumbers are in
/// 1/Mpc and lengths in Mpc, except in [`Transfer::at`].
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    h: f64,
    baryon_share: f64,
    k_equality: f64,
    sound_horizon: f64,
    k_silk: f64,
    alpha_c: f64,
    beta_c: f64,
    alpha_b: f64,
    beta_b: f64,
    beta_node: f64,
}

impl Transfer {
    /// Prepares the fit for one cosmology.
    pub fn new(cosmology: &Cosmology) -> Self {
        let h2 = cosmology.h * cosmology.h;
        let (om, ob) = (cosmology.omega_m * h2, cosmology.omega_b * h2);
        let theta = T_CMB / 2.7;

        // Equality, drag epoch and the sound horizon between them (2-6).
        let z_equality = 2.50e4 * om * theta.powi(-4);
        let k_equality = 7.46e-2 * om * theta.powi(-2);
        let b1 = 0.313 * om.powf(-0.419) * (1.0 + 0.607 * om.powf(0.674));
        let b2 = 0.238 * om.powf(0.223);
        let z_drag = 1291.0 * om.powf(0.251) / (1.0 + 0.659 * om.powf(0.828)) * (1.0 + b1 * ob.powf(b2));
        let momentum_ratio = |z: f64| 31.5 * ob * theta.powi(-4) * (1e3 / z);
        let (r_drag, r_equality) = (momentum_ratio(z_drag), momentum_ratio(z_equality));
        let sound_horizon = 2.0 / (3.0 * k_equality)
            * (6.0 / r_equality).sqrt()
            * (((1.0 + r_drag).sqrt() + (r_drag + r_equality).sqrt()) / (1.0 + r_equality.sqrt())).ln();
        let k_silk = 1.6 * ob.powf(0.52) * om.powf(0.73) * (1.0 + (10.4 * om).powf(-0.95));

        // Suppression and shift of the cold dark matter (11, 12).
        let baryon_share = ob / om;
        let a1 = (46.9 * om).powf(0.670) * (1.0 + (32.1 * om).powf(-0.532));
        let a2 = (12.0 * om).powf(0.424) * (1.0 + (45.0 * om).powf(-0.582));
        let alpha_c = a1.powf(-baryon_share) * a2.powf(-baryon_share.powi(3));
        let c1 = 0.944 / (1.0 + (458.0 * om).powf(-0.708));
        let c2 = (0.395 * om).powf(-0.0266);
        let beta_c = 1.0 / (1.0 + c1 * ((1.0 - baryon_share).powf(c2) - 1.0));

        // Amplitude, envelope and phase of the baryons (14, 15, 23, 24).
        let y = (1.0 + z_equality) / (1.0 + z_drag);
        let root = (1.0 + y).sqrt();
        let g = y * (-6.0 * root + (2.0 + 3.0 * y) * ((root + 1.0) / (root - 1.0)).ln());
        let alpha_b = 2.07 * k_equality * sound_horizon * (1.0 + r_drag).powf(-0.75) * g;
        let beta_b = 0.5 + baryon_share + (3.0 - 2.0 * baryon_share) * ((17.2 * om).powi(2) + 1.0).sqrt();
        let beta_node = 8.41 * om.powf(0.435);

        Self {
            h: cosmology.h,
            baryon_share,
            k_equality,
            sound_horizon,
            k_silk,
            alpha_c,
            beta_c,
            alpha_b,
            beta_b,
            beta_node,
        }
    }

    /// `T(k)` for `k` in h/Mpc (16); 1 at `k` = 0.
    pub fn at(&self, k: f64) -> f64 {
        if k == 0.0 {
            return 1.0;
        }
        let k = k * self.h;
        let ks = k * self.sound_horizon;
        // Cold dark matter (17, 18).
        let f = 1.0 / (1.0 + (ks / 5.4).powi(4));
        let cold =
            f * self.pressureless(k, 1.0, self.beta_c) + (1.0 - f) * self.pressureless(k, self.alpha_c, self.beta_c);
        // Baryons (21, 22).
        let phase = ks / (1.0 + (self.beta_node / ks).powi(3)).cbrt();
        let envelope = self.pressureless(k, 1.0, 1.0) / (1.0 + (ks / 5.2).powi(2))
            + self.alpha_b / (1.0 + (self.beta_b / ks).powi(3)) * (-(k / self.k_silk).powf(1.4)).exp();
        let baryons = envelope * phase.sin() / phase;
        self.baryon_share * baryons + (1.0 - self.baryon_share) * cold
    }

    /// `T0(k, alpha, beta)`, `k` in 1/Mpc (10, 19, 20).
    fn pressureless(&self, k: f64, alpha: f64, beta: f64) -> f64 {
        let q = k / (13.41 * self.k_equality);
        let c = 14.2 / alpha + 386.0 / (1.0 + 69.9 * q.powf(1.08));
        let l = (E + 1.8 * beta * q).ln();
        l / (l + c * q * q)
    }
}
