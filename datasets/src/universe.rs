//! One simulated universe: the matter density at several redshifts, from parameters and a seed.

use crate::cosmology::{Cosmology, LinearSpectrum, growth_factor, second_order_growth};
use crate::field::{Displacements, Fft3, Grid, gaussian_modes, paint};

/// What determines a universe to the bit (on one type of CPU).
#[derive(Debug, Clone, PartialEq)]
pub struct UniverseSpec {
    /// The box.
    pub grid: Grid,
    /// The parameters.
    pub cosmology: Cosmology,
    /// Chooses the initial field.
    pub seed: u64,
    /// One channel each.
    pub redshifts: Vec<f64>,
}

/// Matter density `[C, D, H, W]` in units of its mean (`1 + delta`), one channel a redshift, by second-order Lagrangian
/// perturbation theory of one particle a cell. All redshifts see the same initial field.
///
/// Needs about 90 bytes a cell besides the result. The result is equal to the bit for any `threads`.
pub fn simulate(spec: &UniverseSpec, threads: usize) -> Vec<f32> {
    let displacements = {
        let spectrum = LinearSpectrum::new(&spec.cosmology);
        let modes = gaussian_modes(spec.grid, |k| spectrum.at(k), spec.seed, threads);
        let mut fft = Fft3::new(spec.grid.cells, threads);
        Displacements::new(spec.grid, &modes, &mut fft, threads)
    };
    let mut channels = Vec::with_capacity(spec.redshifts.len() * spec.grid.volume_cells());
    for &z in &spec.redshifts {
        let growth = [growth_factor(&spec.cosmology, z), second_order_growth(&spec.cosmology, z)];
        channels.extend(paint(&displacements, growth, threads));
    }
    channels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::power::power_spectrum;

    fn spec(cells: usize, seed: u64, redshifts: Vec<f64>) -> UniverseSpec {
        let cosmology = Cosmology::new([0.315, 0.81, 0.965, 0.674]);
        UniverseSpec { grid: Grid { cells, side: 8.0 * cells as f64 }, cosmology, seed, redshifts }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let spec = spec(20, 3, vec![0.0, 1.0]);
        let serial = simulate(&spec, 1);
        assert_eq!(serial.len(), 2 * 8000);
        for threads in [2, 3, 5, 20, 64] {
            assert!(simulate(&spec, threads) == serial, "{threads} threads");
        }
        assert!(simulate(&UniverseSpec { seed: 4, ..spec }, 1) != serial);
    }

    #[test]
    fn density_is_positive_with_mean_one_and_clusters_with_time() {
        let spec = spec(32, 1, vec![0.0, 1.0, 3.0]);
        let variances: Vec<f64> = simulate(&spec, 2)
            .chunks(spec.grid.volume_cells())
            .map(|channel| {
                let mean = channel.iter().map(|&v| f64::from(v)).sum::<f64>() / channel.len() as f64;
                assert!((mean - 1.0).abs() < 1e-6 && channel.iter().all(|&v| v >= 0.0));
                channel.iter().map(|&v| (f64::from(v) - 1.0).powi(2)).sum::<f64>() / channel.len() as f64
            })
            .collect();
        assert!(variances[0] > 1.5 * variances[1] && variances[1] > 1.5 * variances[2], "{variances:?}");
    }

    /// Long waves still follow linear theory when short ones do not; the window of cloud in cell is divided out.
    #[test]
    fn long_waves_grow_linearly() {
        let redshifts = vec![0.0, 0.5, 1.5, 3.0];
        let (seeds, bins) = (8, 4);
        let mut ratios = vec![vec![0.0; bins]; redshifts.len()];
        let mut modes = vec![0.0; bins];
        for seed in 0..seeds {
            let spec = spec(64, seed, redshifts.clone());
            let spectrum = LinearSpectrum::new(&spec.cosmology);
            for (c, channel) in simulate(&spec, 2).chunks(spec.grid.volume_cells()).enumerate() {
                let growth = growth_factor(&spec.cosmology, redshifts[c]);
                for (b, bin) in power_spectrum(spec.grid, channel, 2).iter().take(bins).enumerate() {
                    ratios[c][b] += bin.power / (growth.powi(2) * spectrum.at(bin.k)) / seeds as f64;
                    modes[b] = bin.modes as f64;
                }
            }
        }
        for (c, ratios) in ratios.iter().enumerate() {
            for (b, ratio) in ratios.iter().enumerate() {
                let sigma = (2.0 / (modes[b] * seeds as f64)).sqrt();
                // Second-order theory loses a few per cent of the shortest of these waves by z = 0.
                let tolerance = 4.0 * sigma + 0.04;
                assert!((ratio - 1.0).abs() < tolerance, "z {} bin {b}: {ratio:.3} +- {sigma:.3}", redshifts[c]);
            }
        }
    }
}
