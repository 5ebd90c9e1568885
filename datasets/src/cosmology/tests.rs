//! Against colossus, CAMB and CLASS (tables in `reference/`, which says how they were made).

use super::*;

const SPECTRA: &str = include_str!("../../reference/spectra.csv");
const GROWTH: &str = include_str!("../../reference/growth.csv");

/// Largest relative difference of our spectra from those of `code` for each cosmology of the table.
fn spectrum_errors(code: &str) -> Vec<(Cosmology, f64)> {
    let mut errors: Vec<(Cosmology, f64)> = Vec::new();
    for line in SPECTRA.lines().filter(|line| line.starts_with(code)) {
        let values: Vec<f64> = line.split(',').skip(1).map(|v| v.parse().unwrap()).collect();
        let [omega_m, omega_b, h, n_s, sigma_8, k, expected] = values[..] else { panic!("{line}") };
        let cosmology = Cosmology { omega_m, sigma_8, n_s, h, omega_b };
        let error = (LinearSpectrum::new(&cosmology).at(k) / expected - 1.0).abs();
        match errors.last_mut() {
            Some((last, worst)) if *last == cosmology => *worst = worst.max(error),
            _ => errors.push((cosmology, error)),
        }
    }
    errors
}

#[test]
fn spectrum_is_eisenstein_hu() {
    let errors = spectrum_errors("colossus");
    assert_eq!(errors.len(), 7);
    for (cosmology, error) in errors {
        assert!(error < 0.001, "{cosmology:?}: {error:.4}");
    }
}

/// The fit is made for `omega_m h^2` up to 0.25 and a moderate baryon share; the corners of the simulator's ranges lie outside.
#[test]
fn spectrum_is_near_boltzmann_codes() {
    for (cosmology, error) in spectrum_errors("class") {
        assert!(error < 0.05, "CLASS {cosmology:?}: {error:.4}");
    }
    for (cosmology, error) in spectrum_errors("camb") {
        let inside = cosmology.omega_m * cosmology.h.powi(2) < 0.25 && cosmology.omega_b / cosmology.omega_m < 0.4;
        assert!(error < if inside { 0.06 } else { 0.15 }, "CAMB {cosmology:?}: {error:.4}");
    }
}

#[test]
fn sigma_8_is_the_rms_in_spheres() {
    let cosmology = Cosmology::new([0.3, 0.8, 0.96, 0.7]);
    assert!((LinearSpectrum::new(&cosmology).rms(8.0) - 0.8).abs() < 1e-12);
}

#[test]
fn growth_matches_colossus() {
    for line in GROWTH.lines().skip(1) {
        let values: Vec<f64> = line.split(',').map(|v| v.parse().unwrap()).collect();
        let cosmology = Cosmology::new([values[0], 0.8, 0.96, 0.7]);
        let error = growth_factor(&cosmology, values[1]) / values[2] - 1.0;
        assert!(error.abs() < 1e-3, "{line}: {error:.5}");
    }
}

/// Without a cosmological constant `D = a` and `D2 = -3/7 a^2` exactly.
#[test]
fn growth_of_an_einstein_de_sitter_universe() {
    let cosmology = Cosmology::new([1.0, 0.8, 0.96, 0.7]);
    assert!((growth_factor(&cosmology, 3.0) - 0.25).abs() < 1e-9);
    assert!((second_order_growth(&cosmology, 3.0) + 3.0 / 7.0 / 16.0).abs() < 1e-9);
}
