//! One sample's file: written whole, read in parts.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shardmark_h5::File;

use super::spec::{DatasetSpec, NAMES};
use crate::{Error, Result};

/// Stored integers per unit of mean density: steps of 1/128, up to 255 times the mean (voxels of 1 Mpc/h reach about 100).
const SCALE: f64 = 128.0;

/// How the densities of a file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Scaled, rounded and cut at the largest integer: half the bytes. The original files hold particle counts this way.
    I16,
    /// As simulated.
    F32,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::I16 => "i16",
            Dtype::F32 => "f32",
        })
    }
}

/// Writes universe `index` with densities `channels` (`[C, D, H, W]`); the file appears under its name when it is complete.
pub(super) fn write(path: &Path, spec: &DatasetSpec, index: usize, channels: &[f32]) -> Result<()> {
    let universe = spec.universe(index);
    let cosmology = &universe.cosmology;
    let physical = [cosmology.omega_m, cosmology.sigma_8, cosmology.n_s, cosmology.h];
    let shape = spec.shape();
    File::create_atomic(path, |file| -> Result<()> {
        match spec.dtype {
            Dtype::F32 => file.write("full", &shape, channels)?,
            Dtype::I16 => {
                // A cast cuts at the largest integer.
                let scaled: Vec<i16> = channels.iter().map(|&v| (f64::from(v) * SCALE).round() as i16).collect();
                file.write("full", &shape, &scaled)?;
                file.set_attr("full", "scale", SCALE)?;
            }
        }
        file.write("unitPar", &[4], &spec.ranges.to_unit(physical).map(|v| v as f32))?;
        file.write("physPar", &[4], &physical.map(|v| v as f32))?;
        file.write_strs("namePar", &NAMES)?;
        file.set_attr("/", "generator", concat!("shardmark-datasets ", env!("CARGO_PKG_VERSION")))?;
        file.set_attr("/", "index", index as i64)?;
        file.set_attr("/", "seed", spec.seed as i64)?;
        file.set_attr("/", "redshifts", &spec.redshifts[..])?;
        file.set_attr("/", "side_mpc_h", spec.side_mpc_h)?;
        file.set_attr("/", "omega_b", cosmology.omega_b)?;
        Ok(())
    })
}

/// An open sample file whose volume has been checked.
pub(super) struct SampleFile {
    file: File,
    dtype: Dtype,
    /// Stored density per unit.
    scale: f32,
    channels_last: bool,
    /// `[C, D, H, W]`.
    shape: [usize; 4],
}

impl SampleFile {
    /// Opens `path` and checks type and rank of `full`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let content = |expected: &str, got: String| Error::Content {
            path: path.to_path_buf(),
            what: "full",
            expected: expected.to_owned(),
            got,
        };
        let dtype = match file.dtype("full")? {
            shardmark_h5::Dtype::I16 => Dtype::I16,
            shardmark_h5::Dtype::F32 => Dtype::F32,
            other => return Err(content("i16 or f32", other.to_string())),
        };
        let stored = file.shape("full")?;
        let [a, b, c, d] = stored[..] else {
            return Err(content("four axes [C, D, H, W]", format!("{stored:?}")));
        };
        if stored.contains(&0) {
            return Err(content("no empty axis", format!("{stored:?}")));
        }
        // Files with the channels last are known by their cube.
        let channels_last = a == b && b == c && c != d;
        let shape = if channels_last { [d, a, b, c] } else { [a, b, c, d] };
        let has_scale = file.attrs("full")?.iter().any(|name| name == "scale");
        let scale: f64 = if has_scale { file.attr("full", "scale")? } else { 1.0 };
        if !(scale.is_finite() && scale > 0.0) {
            return Err(content("a positive attribute scale", scale.to_string()));
        }
        Ok(Self { file, dtype, scale: scale as f32, channels_last, shape })
    }

    /// Extents `[C, D, H, W]`.
    pub(super) fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// How it is stored.
    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Densities of all channels in `[d, h, w]`, channels last.
    pub(super) fn read(&self, [d, h, w]: [Range<usize>; 3]) -> Result<Vec<f32>> {
        let channels = 0..self.shape[0];
        let extents = [d.len(), h.len(), w.len()];
        let ranges = if self.channels_last { [d, h, w, channels] } else { [channels, d, h, w] };
        let stored: Vec<f32> = match self.dtype {
            Dtype::F32 => self.file.read_slab("full", &ranges)?.0,
            Dtype::I16 => self.file.read_slab::<i16>("full", &ranges)?.0.into_iter().map(f32::from).collect(),
        };
        if self.channels_last {
            return Ok(stored.into_iter().map(|value| value / self.scale).collect());
        }
        let cells: usize = extents.iter().product();
        let mut out = vec![0.0; stored.len()];
        for (c, channel) in stored.chunks_exact(cells.max(1)).enumerate() {
            for (to, value) in out[c..].iter_mut().step_by(self.shape[0]).zip(channel) {
                *to = value / self.scale;
            }
        }
        Ok(out)
    }

    /// The four numbers of `name` (`unitPar`, `physPar`), or none if the file does not have it.
    pub(super) fn parameters(&self, name: &'static str) -> Result<Option<[f32; 4]>> {
        if !self.file.exists(name) {
            return Ok(None);
        }
        let values: Vec<f32> = match self.file.dtype(name)? {
            shardmark_h5::Dtype::F64 => self.file.read::<f64>(name)?.0.into_iter().map(|v| v as f32).collect(),
            _ => self.file.read(name)?.0,
        };
        let four = <[f32; 4]>::try_from(values).map_err(|values| format!("{} values", values.len()));
        let finite =
            four.and_then(|four| if four.iter().all(|v| v.is_finite()) { Ok(four) } else { Err(format!("{four:?}")) });
        finite.map(Some).map_err(|got| Error::Content {
            path: self.file.path().to_path_buf(),
            what: name,
            expected: "4 finite numbers".to_owned(),
            got,
        })
    }
}
