//! How perturbations grow: first order by its integral, second order by the fit of Bouchet et al. 1995.

use super::{Cosmology, simpson};

/// Linear growth factor at redshift `z`, 1 today: `D(a) ~ E(a) Int_0^a da' / (a' E(a'))^3` (Heath 1977; radiation is
/// neglected).
pub fn growth_factor(cosmology: &Cosmology, z: f64) -> f64 {
    let growing = |a: f64| {
        // With a' = t^2 the integrand is smooth at 0: (a' E)^-3 da' = 2 t^4 (omega_m + (1 - omega_m) t^6)^-3/2 dt.
        let integrand = |t: f64| {
            let denominator = cosmology.omega_m + (1.0 - cosmology.omega_m) * t.powi(6);
            2.0 * t.powi(4) / (denominator * denominator.sqrt())
        };
        cosmology.hubble(a) * simpson(0.0, a.sqrt(), 256, integrand)
    };
    growing(1.0 / (1.0 + z)) / growing(1.0)
}

/// Second-order growth factor at redshift `z` for the displacement `x = q - D grad phi1 + D2 grad phi2`:
/// `D2 = -3/7 D^2 omega_m(z)^(-1/143)` (Bouchet et al. 1995, eq. 50 for flat universes).
pub fn second_order_growth(cosmology: &Cosmology, z: f64) -> f64 {
    let first = growth_factor(cosmology, z);
    -3.0 / 7.0 * first * first * cosmology.matter_share(1.0 / (1.0 + z)).powf(-1.0 / 143.0)
}
