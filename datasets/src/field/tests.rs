//! Fields against theory: transforms, spectra, displacements, painting.

use std::f64::consts::{PI, TAU};

use super::paint::deposit;
use super::power::power_spectrum;
use super::*;
use crate::cosmology::{Cosmology, LinearSpectrum, growth_factor, second_order_growth};

const PLANCK: [f64; 4] = [0.315, 0.81, 0.965, 0.674];

/// A complex field by a function of the position in units of the box.
fn sampled(n: usize, f: impl Fn([f64; 3]) -> f64) -> Vec<Complex64> {
    let at = |i: usize| [i / (n * n), i / n % n, i % n].map(|i| i as f64 / n as f64);
    (0..n * n * n).map(|i| Complex64::from(f(at(i)))).collect()
}

#[test]
fn transform_finds_a_wave_and_undoes_itself() {
    for (n, threads) in [(8, 1), (5, 2), (6, 7)] {
        let mut fft = Fft3::new(n, threads);
        let field = sampled(n, |[d, h, w]| 3.0 + 2.0 * (TAU * (d + 2.0 * h - w)).cos());
        let mut data = field.clone();
        fft.forward(&mut data);
        for (i, value) in data.iter().enumerate() {
            let (h, d, w) = (i / (n * n), i / n % n, i % n);
            let wave = [(1, 2, n - 1), (n - 1, n - 2, 1)].contains(&(d, h, w));
            let expected = if wave { 1.0 } else { 3.0 * f64::from(u8::from(i == 0)) };
            assert!((value - expected).norm() < 1e-14, "n {n}: d {d} h {h} w {w}: {value}");
        }
        fft.inverse(&mut data);
        assert!(data.iter().zip(&field).all(|(a, b)| (a - b).norm() < 1e-14));
    }
}

#[test]
fn field_is_real_and_its_long_waves_do_not_depend_on_the_grid() {
    let modes = |cells| gaussian_modes(Grid { cells, side: 100.0 }, |k| 1.0 / (1.0 + k), 7, 2);
    let (coarse, fine) = (modes(8), modes(12));
    for f in [[1, 0, 2], [3, 3, 3], [-3, 2, -1], [0, 0, -3]] {
        let at = |n: i64| f.iter().fold(0, |i, &m: &i64| i * n + m.rem_euclid(n)) as usize;
        assert_eq!(coarse[at(8)], fine[at(12)]);
    }
    let mut field = coarse;
    Fft3::new(8, 1).inverse(&mut field);
    assert!(field.iter().all(|v| v.im.abs() < 1e-12 * v.re.abs().max(1e-3)));
}

/// Over `seeds` fields, the mean power of a bin of `M` waves (half of them independent) scatters by `sqrt(2 / M seeds)`.
fn assert_power(measured: &[Vec<power::Bin>], tolerance: f64, expected: impl Fn(f64) -> f64, bins: usize) {
    let seeds = measured.len();
    let mut chi2 = 0.0;
    for b in 0..bins {
        let first = &measured[0][b];
        let mean = measured.iter().map(|bins| bins[b].power).sum::<f64>() / seeds as f64;
        let ratio = mean / expected(first.k);
        let sigma = (2.0 / (first.modes * seeds) as f64).sqrt();
        assert!((ratio - 1.0).abs() < 4.0 * sigma + tolerance, "k {:.3}: ratio {ratio:.4}, sigma {sigma:.4}", first.k);
        chi2 += ((ratio - 1.0).abs() - tolerance).max(0.0).powi(2) / sigma.powi(2);
    }
    assert!(chi2 < bins as f64 + 4.0 * (2.0 * bins as f64).sqrt(), "chi^2 {chi2:.1} for {bins} bins");
}

#[test]
fn power_of_the_gaussian_field_is_the_given_one() {
    let grid = Grid { cells: 32, side: 512.0 };
    // White noise: no bias from averaging a steep spectrum over a bin.
    let measured: Vec<_> = (0..8)
        .map(|seed| {
            let mut field = gaussian_modes(grid, |_| 40.0, seed, 1);
            Fft3::new(grid.cells, 1).inverse(&mut field);
            let density: Vec<f32> = field.iter().map(|v| 1.0 + v.re as f32).collect();
            power_spectrum(grid, &density, 0)
        })
        .collect();
    assert_power(&measured, 0.0, |_| 40.0, 14);
}

/// Real spectrum, real steps: modes, displacements, painting, estimator. At z = 49 second order still adds a little.
#[test]
fn power_of_the_density_at_high_redshift_is_linear() {
    let grid = Grid { cells: 64, side: 512.0 };
    let cosmology = Cosmology::new(PLANCK);
    let spectrum = LinearSpectrum::new(&cosmology);
    let growth = [growth_factor(&cosmology, 49.0), second_order_growth(&cosmology, 49.0)];
    let mut fft = Fft3::new(grid.cells, 2);
    let mut ratios = Vec::new();
    for seed in 0..4 {
        let modes = gaussian_modes(grid, |k| spectrum.at(k), seed, 2);
        let displacements = Displacements::new(grid, &modes, &mut fft, 2);
        ratios.push(power_spectrum(grid, &paint(&displacements, growth, 2), 0));
    }
    // Particles half-way between cell centres that move by much less than a cell are not yet a cloud: the painted
    // contrast of a wave is its divergence by differences over one cell, averaged over the cell in the other directions.
    let expected = binned_theory(grid, |m, k| {
        let half = m.map(|f| PI * f as f64 / grid.cells as f64);
        let m2: f64 = m.iter().map(|&f| (f * f) as f64).sum();
        let differences: f64 = (0..3).map(|a| m[a] as f64 * half[a].tan() * grid.cells as f64 / PI).sum::<f64>() / m2;
        let average: f64 = half.iter().map(|x| x.cos()).product();
        (differences * average * growth[0]).powi(2) * spectrum.at(k)
    });
    assert_power(&ratios, 0.01, |k| expected.iter().find(|(at, _)| (at - k).abs() < 1e-9).unwrap().1, 28);
}

/// Mean of `f(frequencies, k)` over the waves of each bin of the estimator, with the bin's k.
fn binned_theory(grid: Grid, f: impl Fn([i64; 3], f64) -> f64) -> Vec<(f64, f64)> {
    let n = grid.cells;
    let mut bins = vec![(0.0, 0.0, 0.0); n / 2];
    for i in 0..n * n * n {
        let m = [i / n % n, i / (n * n), i % n].map(|i| grid.frequency(i));
        let length = (m.iter().map(|f| f * f).sum::<i64>() as f64).sqrt();
        if let Some(bin) = bins.get_mut((length + 0.5) as usize).filter(|_| length > 0.0) {
            let kept = !m.iter().any(|&f| grid.is_nyquist(f));
            bin.0 += length * grid.fundamental();
            bin.1 += if kept { f(m, length * grid.fundamental()) } else { 0.0 };
            bin.2 += 1.0;
        }
    }
    bins.iter().skip(1).map(|(k, p, modes)| (k / modes, p / modes)).collect()
}

/// Two crossing waves have a second-order displacement in closed form; a single wave in any direction has none.
#[test]
fn second_order_displacement_of_two_waves() {
    let grid = Grid { cells: 16, side: 16.0 };
    let k = TAU / grid.side;
    let (a, b) = (0.7, 0.4);
    let mut fft = Fft3::new(grid.cells, 1);
    let mut displacements = |phi_1: &dyn Fn([f64; 3]) -> f64| {
        let mut modes = sampled(grid.cells, phi_1);
        fft.forward(&mut modes);
        Displacements::new(grid, &modes, &mut fft, 1)
    };
    // delta = laplace phi of phi = a cos(k d) + b cos(k h).
    let crossing = displacements(&|[d, h, _]| -k * k * (a * (TAU * d).cos() + b * (TAU * h).cos()));
    for i in 0..grid.volume_cells() {
        let [d, h] = [i / 256, i / 16 % 16].map(|i| TAU * i as f64 / 16.0);
        let first = a * k * d.sin();
        let second = a * b * k.powi(3) / 2.0 * d.sin() * h.cos();
        assert!((crossing.at(0, i, [1.0, 0.0]) - first).abs() < 1e-6, "first order at {i}");
        assert!((crossing.at(0, i, [0.0, 1.0]) - second).abs() < 1e-7, "second order at {i}");
        assert_eq!(crossing.at(2, i, [1.0, 1.0]).abs().max(1e-7), 1e-7);
    }
    let single = displacements(&|[d, h, w]| (TAU * (d + 2.0 * h - w)).cos());
    assert!((0..4096).all(|i| single.at(1, i, [0.0, 1.0]).abs() < 1e-6));
}

/// `<psi_a^2> = 1/3 sum over waves of P(k) / (V k^2)` for a wave-by-wave sum.
#[test]
fn displacements_have_the_linear_rms() {
    let grid = Grid { cells: 32, side: 256.0 };
    let spectrum = LinearSpectrum::new(&Cosmology::new(PLANCK));
    let mut fft = Fft3::new(grid.cells, 1);
    let (mut measured, seeds) = (0.0, 12);
    for seed in 0..seeds {
        let displacements = Displacements::new(grid, &gaussian_modes(grid, |k| spectrum.at(k), seed, 1), &mut fft, 1);
        for axis in 0..3 {
            measured += (0..grid.volume_cells()).map(|i| displacements.at(axis, i, [1.0, 0.0]).powi(2)).sum::<f64>();
        }
    }
    measured *= (grid.side / grid.cells as f64).powi(2) / (seeds as usize * grid.volume_cells()) as f64;
    let (mut expected, mut variance) = (0.0, 0.0);
    for i in 1..grid.volume_cells() {
        let m = [i / 1024, i / 32 % 32, i % 32].map(|i| grid.frequency(i));
        if !m.iter().any(|&f| grid.is_nyquist(f)) {
            let k = (m.iter().map(|f| f * f).sum::<i64>() as f64).sqrt() * grid.fundamental();
            let term = spectrum.at(k) / (grid.side.powi(3) * k * k);
            expected += term;
            variance += 2.0 * term * term / f64::from(seeds as u32);
        }
    }
    let sigma = variance.sqrt();
    assert!((measured - expected).abs() < 3.0 * sigma, "{measured:.2} against {expected:.2} +- {sigma:.2} (Mpc/h)^2");
}

/// The points and their spectrum by numpy are those of `reference/make.py`.
#[test]
fn painter_and_estimator_match_numpy() {
    let grid = Grid { cells: 16, side: 100.0 };
    let mut density = vec![0.0; 4096];
    for i in 0..3000 {
        let x =
            [0.754_877_666_246_692_7, 0.569_840_290_998_053_2, 0.381_966_011_250_105_1].map(|step| f64::from(i) * step);
        let wave = |a: usize| 0.06 * (TAU * x[(a + 2) % 3] * (a + 1) as f64).sin();
        let point = [0, 1, 2].map(|a| (x[a] + wave(a)).rem_euclid(1.0) * 16.0);
        deposit(point, 16, &(0..16), &mut density);
    }
    let bins = power_spectrum(grid, &density, 2);
    for (line, bin) in include_str!("../../reference/painted.csv").lines().skip(1).zip(&bins) {
        let values: Vec<f64> = line.split(',').map(|v| v.parse().unwrap()).collect();
        assert_eq!(values[1], bin.modes as f64);
        assert!((bin.power / values[2] - 1.0).abs() < 1e-4, "{line}: {}", bin.power);
    }
}

#[test]
fn painting_keeps_the_mass_and_wraps_around() {
    let mut density = vec![0.0; 64];
    deposit([0.25, -7.75, 3.9], 4, &(0..4), &mut density);
    assert_eq!(density.iter().sum::<f32>(), 1.0);
    // At 0.25 three quarters are in cell 0 and a quarter in the last cell.
    assert_eq!(density[3], 0.75 * 0.75 * (1.0 - 0.4));
    for edge in [-1e-30, 4.0 - 1e-15, 0.5, 3.5] {
        let mut density = vec![0.0; 64];
        deposit([edge; 3], 4, &(0..4), &mut density);
        assert_eq!(density.iter().sum::<f32>(), 1.0);
    }
}
