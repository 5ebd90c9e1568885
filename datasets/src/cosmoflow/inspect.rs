//! What is in a folder: counts, shapes, ranges, statistics, broken files.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Split;
use super::dataset::find_files;
use super::file::{Dtype, SampleFile};
use super::spec::{NAMES, read_index};
use crate::{Error, Result};

/// Statistics of one channel over all cells of all files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Mean density; 1 for whole simulated universes.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Smallest value.
    pub min: f32,
    /// Largest value.
    pub max: f32,
    count: f64,
}

/// What [`inspect`] found. Printed by its `Display`.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Readable files of each split.
    pub files: [usize; 3],
    /// Files that the index of the folder promises and that are not there.
    pub missing: usize,
    /// `[C, D, H, W]` and type of the first readable file.
    pub volume: Option<([usize; 4], Dtype)>,
    /// Smallest and largest value of each parameter: `physPar`, or `unitPar` in files without it.
    pub parameters: Option<[[f32; 2]; 4]>,
    /// By channel.
    pub channels: Vec<Channel>,
    /// Files that cannot be used, and why.
    pub broken: Vec<(PathBuf, String)>,
}

/// Reads every file of `dir`.
///
/// # Errors
/// Without a readable folder or with a foreign `dataset.toml`, and [`Error::Empty`] without any file. A file that cannot be
/// read is part of the summary.
pub fn inspect(dir: &Path) -> Result<Summary> {
    let promised = match read_index(dir)? {
        Some(spec) => Split::ALL.map(|split| spec.files(dir, split).into_iter().map(|(_, path)| path).collect()),
        None => find_files(dir)?,
    };
    let mut summary =
        Summary { files: [0; 3], missing: 0, volume: None, parameters: None, channels: Vec::new(), broken: Vec::new() };
    for (split, paths) in promised.iter().enumerate() {
        for path in paths {
            if !path.exists() {
                summary.missing += 1;
                continue;
            }
            match summary.add(path) {
                Ok(()) => summary.files[split] += 1,
                Err(error) => summary.broken.push((path.clone(), error.to_string())),
            }
        }
    }
    if promised.iter().all(Vec::is_empty) {
        return Err(Error::Empty { dir: dir.to_path_buf() });
    }
    Ok(summary)
}

impl Summary {
    fn add(&mut self, path: &Path) -> Result<()> {
        let file = SampleFile::open(path)?;
        let volume = (file.shape(), file.dtype());
        let content =
            |what, expected: String, got: String| Error::Content { path: path.to_path_buf(), what, expected, got };
        if let Some(first) = self.volume.filter(|first| *first != volume) {
            return Err(content("full", format!("{first:?} as in the first file"), format!("{volume:?}")));
        }
        let labels = file.parameters("unitPar")?;
        let labels = labels.ok_or_else(|| content("unitPar", "4 finite numbers".to_owned(), "none".to_owned()))?;
        let parameters = file.parameters("physPar")?.unwrap_or(labels);
        let [channels, d, h, w] = file.shape();
        let values = file.read([0..d, 0..h, 0..w])?;
        let found: Vec<Channel> = (0..channels).map(|c| Channel::of(values.iter().skip(c).step_by(channels))).collect();
        if let Some(bad) = found.iter().find(|channel| !channel.std.is_finite()) {
            return Err(content("full", "finite densities".to_owned(), format!("mean {}", bad.mean)));
        }
        self.volume = Some(volume);
        let ranges = self.parameters.get_or_insert(parameters.map(|v| [v, v]));
        for (range, v) in ranges.iter_mut().zip(parameters) {
            *range = [range[0].min(v), range[1].max(v)];
        }
        if self.channels.is_empty() {
            self.channels = found;
        } else {
            self.channels.iter_mut().zip(found).for_each(|(all, one)| *all = all.merged(one));
        }
        Ok(())
    }
}

impl Channel {
    fn of<'a>(values: impl Iterator<Item = &'a f32> + Clone) -> Self {
        let count = values.clone().count() as f64;
        let mean = values.clone().map(|&v| f64::from(v)).sum::<f64>() / count;
        let squares: f64 = values.clone().map(|&v| (f64::from(v) - mean).powi(2)).sum();
        let (min, max) = values.fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &v| (min.min(v), max.max(v)));
        Self { mean, std: (squares / count).sqrt(), min, max, count }
    }

    /// Of both sets of values together (Chan et al. 1979).
    fn merged(self, other: Self) -> Self {
        let count = self.count + other.count;
        let step = other.mean - self.mean;
        let between = step * step * self.count * other.count / count;
        let squares = self.std.powi(2) * self.count + other.std.powi(2) * other.count + between;
        Self {
            mean: self.mean + step * other.count / count,
            std: (squares / count).sqrt(),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            count,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [train, validation, test] = self.files;
        writeln!(f, "files       {train} train, {validation} validation, {test} test")?;
        if self.missing > 0 {
            writeln!(f, "missing     {}", self.missing)?;
        }
        if let Some(([c, d, h, w], dtype)) = self.volume {
            writeln!(f, "volume      {c} channels of {d} x {h} x {w} cells, {dtype}")?;
        }
        for (name, [low, high]) in NAMES.iter().zip(self.parameters.iter().flatten()) {
            writeln!(f, "{name:<11} {low:.4} to {high:.4}")?;
        }
        for (i, Channel { mean, std, min, max, .. }) in self.channels.iter().enumerate() {
            writeln!(f, "channel {i}   mean {mean:.4}, standard deviation {std:.4}, {min:.4} to {max:.4}")?;
        }
        for (_, why) in &self.broken {
            writeln!(f, "broken      {why}")?;
        }
        Ok(())
    }
}
