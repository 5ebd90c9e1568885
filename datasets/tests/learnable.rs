//! The parameters must show in the simulated densities, or there is nothing to learn.

use shardmark_datasets::cosmoflow::{DatasetSpec, Samples};
use shardmark_datasets::universe::simulate;

const TRAIN: usize = 96;
const UNSEEN: usize = 64;

/// A constant and, for each channel, the log-variance of `ln(1 + density)`.
fn features(spec: &DatasetSpec, index: usize) -> Vec<f64> {
    let channels = simulate(&spec.universe(index), 2);
    let log_variance = |channel: &[f32]| {
        let logs: Vec<f64> = channel.iter().map(|&v| f64::from(v).ln_1p()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (logs.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / logs.len() as f64).ln()
    };
    std::iter::once(1.0).chain(channels.chunks(spec.cells.pow(3)).map(log_variance)).collect()
}

/// Least squares by the normal equations and Gaussian elimination; they are positive definite, so without pivots.
fn fit(rows: &[Vec<f64>], targets: &[f64]) -> Vec<f64> {
    let n = rows[0].len();
    let mut system = vec![vec![0.0; n + 1]; n];
    for (row, target) in rows.iter().zip(targets) {
        for i in 0..n {
            for j in 0..n {
                system[i][j] += row[i] * row[j];
            }
            system[i][n] += row[i] * target;
        }
    }
    for i in 0..n {
        let pivot = system[i].clone();
        for j in (0..n).filter(|&j| j != i) {
            let factor = system[j][i] / pivot[i];
            system[j].iter_mut().zip(&pivot).for_each(|(a, b)| *a -= factor * b);
        }
    }
    (0..n).map(|i| system[i][n] / system[i][i]).collect()
}

#[test]
fn omega_m_follows_from_the_variances_of_the_channels() {
    let default = DatasetSpec::default();
    let cells = 32;
    let spec = DatasetSpec {
        cells,
        side_mpc_h: default.side_mpc_h * cells as f64 / default.cells as f64,
        samples: Samples { train: TRAIN, validation: UNSEEN, test: 0 },
        ..default
    };
    let rows: Vec<_> = (0..spec.total()).map(|i| features(&spec, i)).collect();
    let omega_m: Vec<_> = (0..spec.total()).map(|i| spec.universe(i).cosmology.omega_m).collect();
    let weights = fit(&rows[..TRAIN], &omega_m[..TRAIN]);
    let predicted = |row: &Vec<f64>| row.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
    let unseen = &omega_m[TRAIN..];
    let mean = unseen.iter().sum::<f64>() / UNSEEN as f64;
    let variance: f64 = unseen.iter().map(|v| (v - mean).powi(2)).sum();
    let error: f64 = rows[TRAIN..].iter().zip(unseen).map(|(row, v)| (predicted(row) - v).powi(2)).sum();
    let ratio = (error / variance).sqrt();
    assert!(ratio < 0.3, "rmse of Omega_m over the labels' standard deviation: {ratio:.3}");
}
