//! What a set of simulated universes is made from, and the universes that follow from it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Split;
use super::file::Dtype;
use crate::cosmology::{Cosmology, OMEGA_B};
use crate::field::Grid;
use crate::random::{Stream, integers, uniforms};
use crate::universe::UniverseSpec;
use crate::{Error, Result};

/// Version of `dataset.toml` and of the numbers behind it; another simulator is another version.
const FORMAT: u32 = 1;

/// Names of the parameters, in the order of all arrays of four.
pub const NAMES: [&str; 4] = ["Omega_m", "sigma_8", "n_s", "h"];

/// Everything that a set of universes depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatasetSpec {
    /// Cells along each axis.
    pub cells: usize,
    /// Length of each axis in Mpc/h.
    pub side_mpc_h: f64,
    /// One channel each.
    pub redshifts: Vec<f64>,
    /// Chooses parameters and fields of all universes.
    pub seed: u64,
    /// How densities are stored.
    pub dtype: Dtype,
    /// Where parameters are drawn from.
    pub ranges: Ranges,
    /// How many universes.
    pub samples: Samples,
}

/// Uniform priors `[low, high]`. The default is that of the Latin hypercubes of Quijote (Villaescusa-Navarro et al. 2020,
/// arXiv 1909.05273); the baryon density is fixed instead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ranges {
    /// Matter density.
    pub omega_m: [f64; 2],
    /// Rms contrast in spheres of 8 Mpc/h.
    pub sigma_8: [f64; 2],
    /// Slope of the primordial spectrum.
    pub n_s: [f64; 2],
    /// Hubble constant in 100 km/s/Mpc.
    pub h: [f64; 2],
}

/// Universes of each split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Samples {
    /// To train on.
    pub train: usize,
    /// To watch the training with.
    pub validation: usize,
    /// For the last word.
    pub test: usize,
}

/// Voxels of 16 Mpc/h, which stay nearly linear: the growth from z = 3 to now, and with it `Omega_m`, shows in the variances
/// of the channels more clearly than with 4 or 8 Mpc/h.
impl Default for DatasetSpec {
    fn default() -> Self {
        Self {
            cells: 64,
            side_mpc_h: 1024.0,
            redshifts: vec![0.0, 0.5, 1.5, 3.0],
            seed: 1,
            dtype: Dtype::I16,
            ranges: Ranges::default(),
            samples: Samples::default(),
        }
    }
}

impl Default for Ranges {
    fn default() -> Self {
        Self { omega_m: [0.1, 0.5], sigma_8: [0.6, 1.0], n_s: [0.8, 1.2], h: [0.5, 0.9] }
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self { train: 256, validation: 64, test: 64 }
    }
}

impl Ranges {
    fn by_parameter(&self) -> [[f64; 2]; 4] {
        [self.omega_m, self.sigma_8, self.n_s, self.h]
    }

    /// Parameters mapped from their range to `[-1, 1]`: `(value - middle) / (half the width)`; 0 in a range of no width.
    pub fn to_unit(&self, parameters: [f64; 4]) -> [f64; 4] {
        let ranges = self.by_parameter();
        std::array::from_fn(|i| {
            let [low, high] = ranges[i];
            if high > low { (2.0 * parameters[i] - low - high) / (high - low) } else { 0.0 }
        })
    }

    /// Undoes [`Ranges::to_unit`].
    pub fn to_physical(&self, unit: [f64; 4]) -> [f64; 4] {
        let ranges = self.by_parameter();
        std::array::from_fn(|i| (ranges[i][0] + ranges[i][1] + unit[i] * (ranges[i][1] - ranges[i][0])) / 2.0)
    }
}

impl DatasetSpec {
    /// Number of universes of all splits.
    pub fn total(&self) -> usize {
        let Samples { train, validation, test } = self.samples;
        train.saturating_add(validation).saturating_add(test)
    }

    /// Extents `[C, D, H, W]` of one universe.
    pub fn shape(&self) -> [usize; 4] {
        [self.redshifts.len(), self.cells, self.cells, self.cells]
    }

    /// Universe `index` (of all splits, training first): its parameters and its field depend on `seed` and `index` alone,
    /// so a larger set with the same seed begins with the same universes.
    pub fn universe(&self, index: usize) -> UniverseSpec {
        let counter = |word| [index as u32, (index as u64 >> 32) as u32, word];
        let [a, b] = uniforms(self.seed, counter(0), Stream::Parameters);
        let [c, d] = uniforms(self.seed, counter(1), Stream::Parameters);
        let parameters = self.ranges.to_physical([a, b, c, d].map(|u| 2.0 * u - 1.0));
        UniverseSpec {
            grid: Grid { cells: self.cells, side: self.side_mpc_h },
            cosmology: Cosmology::new(parameters),
            seed: integers(self.seed, counter(0), Stream::Fields)[0],
            redshifts: self.redshifts.clone(),
        }
    }

    /// Files of a split inside `dir`, with the indices of their universes.
    pub(super) fn files(&self, dir: &Path, split: Split) -> Vec<(usize, PathBuf)> {
        let Samples { train, validation, test } = self.samples;
        let indices = match split {
            Split::Train => 0..train,
            Split::Validation => train..train + validation,
            Split::Test => train + validation..train + validation + test,
        };
        let folder = dir.join(split.folder());
        indices.map(|index| (index, folder.join(format!("universe_{index:06}.hdf5")))).collect()
    }

    /// Refuses what cannot be simulated or stored.
    ///
    /// # Errors
    /// [`Error::Spec`] with the key.
    pub fn check(&self) -> Result<()> {
        let rule = |holds: bool, what, expected, got: String| {
            if holds { Ok(()) } else { Err(Error::Spec { what, expected, got }) }
        };
        rule((4..=4096).contains(&self.cells), "cells", "4 to 4096", self.cells.to_string())?;
        let side = self.side_mpc_h;
        rule(side.is_finite() && side > 0.0, "side_mpc_h", "a positive length", side.to_string())?;
        let redshifts_do = !self.redshifts.is_empty() && self.redshifts.iter().all(|&z| (0.0..=1000.0).contains(&z));
        rule(redshifts_do, "redshifts", "one or more, 0 to 1000", format!("{:?}", self.redshifts))?;
        // More files no folder holds.
        let range = "1 to 10000000 universes in all";
        rule((1..=10_000_000).contains(&self.total()), "samples", range, self.total().to_string())?;
        // The seed lies in TOML and HDF5 as a signed integer.
        rule(i64::try_from(self.seed).is_ok(), "seed", "less than 2^63", self.seed.to_string())?;
        // The fit of the transfer function needs dark matter beside the baryons; a flat universe has no more than 1.
        let bounds = [(OMEGA_B, 1.0), (0.0, 10.0), (-2.0, 3.0), (0.1, 3.0)];
        let keys = ["ranges.omega_m", "ranges.sigma_8", "ranges.n_s", "ranges.h"];
        let expected = [
            "low <= high, more than 0.049, up to 1",
            "low <= high, more than 0, up to 10",
            "low <= high, more than -2, up to 3",
            "low <= high, more than 0.1, up to 3",
        ];
        for (i, [low, high]) in self.ranges.by_parameter().into_iter().enumerate() {
            let holds = low <= high && bounds[i].0 < low && high <= bounds[i].1;
            rule(holds, keys[i], expected[i], format!("[{low}, {high}]"))?;
        }
        Ok(())
    }
}

/// What `dataset.toml` holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    format: u32,
    cosmoflow: DatasetSpec,
}

fn index_path(dir: &Path) -> PathBuf {
    dir.join("dataset.toml")
}

/// The specification in `dir`, or none if there is no index.
pub(super) fn read_index(dir: &Path) -> Result<Option<DatasetSpec>> {
    let path = index_path(dir);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(&path, "to read the index", &error)),
    };
    match toml::from_str::<Index>(&text) {
        Ok(index) if index.format == FORMAT => Ok(Some(index.cosmoflow)),
        Ok(index) => Err(Error::Index { path, got: format!("format {} where {FORMAT} is known", index.format) }),
        Err(error) => Err(Error::Index { path, got: error.message().replace('\n', " ") }),
    }
}

/// Writes the index to a temporary name and renames it.
pub(super) fn write_index(dir: &Path, spec: &DatasetSpec) -> Result<()> {
    let path = index_path(dir);
    let index = Index { format: FORMAT, cosmoflow: spec.clone() };
    let text = toml::to_string(&index).map_err(|error| Error::Index { path: path.clone(), got: error.to_string() })?;
    let part = dir.join("dataset.toml.part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, &path))
        .map_err(|error| Error::io(&path, "to write the index", &error))
}

/// The keys in which two specifications differ, as `key = value` lists of the first and of the second.
pub(super) fn differences(first: &DatasetSpec, second: &DatasetSpec) -> (String, String) {
    let (first, second) = (entries(first), entries(second));
    let differing = |of: &[String], other: &[String]| {
        of.iter().zip(other).filter(|(a, b)| a != b).map(|(a, _)| a.as_str()).collect::<Vec<_>>().join(", ")
    };
    (differing(&first, &second), differing(&second, &first))
}

/// `key = value` of every leaf; the same keys in the same order for every specification.
fn entries(spec: &DatasetSpec) -> Vec<String> {
    let Samples { train, validation, test } = spec.samples;
    let keys = ["omega_m", "sigma_8", "n_s", "h"];
    let ranges = keys.iter().zip(spec.ranges.by_parameter()).map(|(key, range)| format!("{key} = {range:?}"));
    let mut entries = vec![
        format!("cells = {}", spec.cells),
        format!("side_mpc_h = {}", spec.side_mpc_h),
        format!("redshifts = {:?}", spec.redshifts),
        format!("seed = {}", spec.seed),
        format!("dtype = {}", spec.dtype),
        format!("train = {train}"),
        format!("validation = {validation}"),
        format!("test = {test}"),
    ];
    entries.extend(ranges);
    entries
}
