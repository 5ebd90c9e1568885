//! Reading samples: whose they are, their labels, and any box of a volume with zeros around it.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::file::SampleFile;
use super::spec::read_index;
use crate::{Error, Result};

/// Which samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// To train on.
    Train,
    /// To watch the training with.
    Validation,
    /// For the last word.
    Test,
}

impl Split {
    /// All of them, in the order of the universes.
    pub const ALL: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

    /// Its folder inside the data folder.
    pub fn folder(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }
}

/// What is done to a density (in units of its mean) when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Transform {
    /// Nothing.
    #[default]
    None,
    /// `ln(1 + density)`, as the MLPerf HPC benchmark does.
    Log1p,
    /// The density contrast `density - 1`, with mean zero: an unnormalised network sees fluctuations, not the mean.
    Contrast,
    /// Multiplied by a number.
    Scale(f32),
}

impl Transform {
    /// The transformed value.
    pub fn apply(self, density: f32) -> f32 {
        match self {
            Transform::None => density,
            Transform::Log1p => density.ln_1p(),
            Transform::Contrast => density - 1.0,
            Transform::Scale(factor) => factor * density,
        }
    }
}

/// How to read a folder.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// What is done to densities.
    pub transform: Transform,
    /// Cuts every file into cubes with edges of this many cells; each is a sample with the file's labels.
    pub cube: Option<usize>,
}

/// The samples of a folder, all of one shape.
#[derive(Debug)]
pub struct Dataset {
    files: [Vec<PathBuf>; 3],
    /// `[C, D, H, W]` of every file.
    file_shape: [usize; 4],
    /// `[C, D, H, W]` of every sample.
    shape: [usize; 4],
    transform: Transform,
}

impl Dataset {
    /// Opens a folder that [`super::make`] wrote (with `dataset.toml`), or any folder with `.hdf5` or `.h5` files of the
    /// layout, sorted by name: in folders `train`, `validation` and `test`, or else directly, which makes them all training
    /// samples. Files may be cubes cut from larger universes.
    ///
    /// # Errors
    /// [`Error::Empty`] or [`Error::Incomplete`] without the files, [`Error::Cube`] if the cubes do not tile them, or what is
    /// wrong with the first file. Other files are checked when they are read.
    pub fn open(dir: &Path, options: Options) -> Result<Self> {
        let files = match read_index(dir)? {
            Some(spec) => {
                let files = Split::ALL.map(|split| spec.files(dir, split).into_iter().map(|(_, path)| path).collect());
                let found =
                    files.iter().flat_map(|of_split: &Vec<PathBuf>| of_split).filter(|path| path.exists()).count();
                if found < spec.total() {
                    return Err(Error::Incomplete { dir: dir.to_path_buf(), expected: spec.total(), got: found });
                }
                files
            }
            None => find_files(dir)?,
        };
        let first = files.iter().flatten().next().ok_or_else(|| Error::Empty { dir: dir.to_path_buf() })?;
        let file_shape = SampleFile::open(first)?.shape();
        let [channels, extents @ ..] = file_shape;
        let shape = match options.cube {
            None => file_shape,
            Some(edge) if edge > 0 && extents.iter().all(|n| n % edge == 0) => [channels, edge, edge, edge],
            Some(edge) => return Err(Error::Cube { extents, edge }),
        };
        Ok(Self { files, file_shape, shape, transform: options.transform })
    }

    /// Number of samples.
    pub fn len(&self, split: Split) -> usize {
        self.files[split as usize].len() * self.cubes().iter().product::<usize>()
    }

    /// True if a split has no samples.
    pub fn is_empty(&self, split: Split) -> bool {
        self.len(split) == 0
    }

    /// Extents `[C, D, H, W]` of a sample.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// What a network predicts for a sample, in `[-1, 1]`.
    ///
    /// # Errors
    /// [`Error::Sample`] beyond the end, or what is wrong with the file.
    pub fn labels(&self, split: Split, sample: usize) -> Result<[f32; 4]> {
        let (path, _) = self.locate(split, sample)?;
        let labels = SampleFile::open(path)?.parameters("unitPar")?;
        labels.ok_or_else(|| Error::Content {
            path: path.to_path_buf(),
            what: "unitPar",
            expected: "4 finite numbers".to_owned(),
            got: "none".to_owned(),
        })
    }

    /// The box `d x h x w` of a sample, in cells from its corner, as `[d, h, w, C]` (channels last). Where it sticks out of
    /// the sample it holds zeros; only what lies inside is read from the file. Transformed.
    ///
    /// # Errors
    /// [`Error::Sample`] beyond the end, or what is wrong with the file.
    pub fn read_region(
        &self,
        split: Split,
        sample: usize,
        d: Range<i64>,
        h: Range<i64>,
        w: Range<i64>,
    ) -> Result<Vec<f32>> {
        let (path, origin) = self.locate(split, sample)?;
        let [channels, extents @ ..] = self.shape;
        let asked = [d, h, w];
        let size: [usize; 3] = std::array::from_fn(|a| (asked[a].end - asked[a].start).max(0) as usize);
        let inside: [Range<usize>; 3] = std::array::from_fn(|a| {
            let clip = |x: i64| x.clamp(0, extents[a] as i64) as usize;
            clip(asked[a].start)..clip(asked[a].end).max(clip(asked[a].start))
        });
        let mut out = vec![0.0; size.iter().product::<usize>() * channels];
        if inside.iter().any(Range::is_empty) {
            return Ok(out);
        }
        let file = SampleFile::open(path)?;
        self.check_shape(path, file.shape())?;
        let stored = std::array::from_fn(|a| inside[a].start + origin[a]..inside[a].end + origin[a]);
        let read = file.read(stored)?;
        let row_len = inside[2].len() * channels;
        let place = |a: usize, x: usize| (x as i64 - asked[a].start) as usize;
        let mut rows = read.chunks_exact(row_len);
        for d in inside[0].clone() {
            for (h, row) in inside[1].clone().zip(&mut rows) {
                let start = ((place(0, d) * size[1] + place(1, h)) * size[2] + place(2, inside[2].start)) * channels;
                for (to, &from) in out[start..start + row_len].iter_mut().zip(row) {
                    *to = self.transform.apply(from);
                }
            }
        }
        Ok(out)
    }

    /// Cubes of a file along D, H, W.
    fn cubes(&self) -> [usize; 3] {
        std::array::from_fn(|a| self.file_shape[a + 1] / self.shape[a + 1])
    }

    /// File and corner of a sample: the cubes of a file follow one another, W fastest.
    fn locate(&self, split: Split, sample: usize) -> Result<(&Path, [usize; 3])> {
        let len = self.len(split);
        if sample >= len {
            return Err(Error::Sample { len, sample });
        }
        let [nd, nh, nw] = self.cubes();
        let cube = sample % (nd * nh * nw);
        let corner = [cube / (nh * nw), cube / nw % nh, cube % nw];
        let origin = std::array::from_fn(|a| corner[a] * self.shape[a + 1]);
        Ok((&self.files[split as usize][sample / (nd * nh * nw)], origin))
    }

    fn check_shape(&self, path: &Path, got: [usize; 4]) -> Result<()> {
        if got == self.file_shape {
            return Ok(());
        }
        Err(Error::Content {
            path: path.to_path_buf(),
            what: "full",
            expected: format!("{:?} as in the first file (C, D, H, W)", self.file_shape),
            got: format!("{got:?}"),
        })
    }
}

/// Sample files of a folder without an index, by split.
pub(super) fn find_files(dir: &Path) -> Result<[Vec<PathBuf>; 3]> {
    let mut files: [Vec<PathBuf>; 3] = Default::default();
    for split in Split::ALL {
        let folder = dir.join(split.folder());
        if folder.is_dir() {
            files[split as usize] = sample_files(&folder)?;
        }
    }
    if files.iter().all(Vec::is_empty) {
        files[Split::Train as usize] = sample_files(dir)?;
    }
    Ok(files)
}

fn sample_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Error::io(dir, "a folder to list", &error);
    let entries = fs::read_dir(dir).map_err(failed)?;
    let paths: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().map_err(failed)?;
    let is_sample = |path: &PathBuf| path.extension().is_some_and(|e| e == "hdf5" || e == "h5");
    let mut samples: Vec<PathBuf> = paths.into_iter().filter(is_sample).collect();
    samples.sort();
    Ok(samples)
}
