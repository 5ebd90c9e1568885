//! Reading reference files (`ci/reference/FORMAT.md`): settings, start values, and what PyTorch computed.

use crate::error::RankError;
use crate::expectation::{Expected, Kinks, ULPS, ULPS_AFTER_ADAM, Whole};
use crate::network;
use shardmark_h5::File;
use shardmark_layers::ParamSpec;
use shardmark_layers::loss::Loss;
use shardmark_layers::optim::OptimSpec;
use shardmark_networks::{Cosmoflow, TARGETS};
use shardmark_partition::Region;
use shardmark_plan::case::Case;
use shardmark_plan::value::{Norm, Optimizer};
use shardmark_tensor::{Block, Real, rng};
use std::path::Path;

/// Version of the format that is read.
const VERSION: i64 = 1;
/// Case keys that a file names; the optimizer's follow.
const KEYS: [&str; 8] = ["net", "width", "channels", "norm", "batch", "dropout", "seed", "optimizer"];
const STREAM_INPUT: u64 = 2 << 32;
const STREAM_TARGET: u64 = 3 << 32;
const STREAM_SAMPLES: u64 = 4 << 32;

/// Why a file is no reference file that can be verified.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The file cannot be read, or a tensor is missing or of another type.
    #[error(transparent)]
    File(#[from] shardmark_h5::Error),
    /// The settings are no case.
    #[error("{path}: {source}")]
    Case {
        /// The file.
        path: String,
        /// What is wrong.
        source: shardmark_plan::PlanError,
    },
    /// Something in the file does not fit.
    #[error("{path}: {what}: expected {expected}, got {got}; write the file anew with ci/reference/make.py")]
    Content {
        /// The file.
        path: String,
        /// Attribute or dataset.
        what: String,
        /// What would fit.
        expected: String,
        /// What is there.
        got: String,
    },
}

impl From<ReferenceError> for RankError {
    fn from(error: ReferenceError) -> Self {
        RankError::Other(error.to_string())
    }
}

type Result<T> = std::result::Result<T, ReferenceError>;

/// An open reference file.
#[derive(Debug)]
pub struct ReferenceFile {
    file: File,
    case: Case,
    /// The network.
    pub network: Cosmoflow,
    /// The loss.
    pub loss: Loss,
    /// Optimizer steps; 0 for one forward and backward pass.
    pub steps: usize,
    /// Whether weights, input and target lie in the file; else they follow from the seed.
    pub stored: bool,
    digest: bool,
    input_scale: f64,
}

impl ReferenceFile {
    /// Opens a file and reads its settings.
    ///
    /// # Errors
    /// A file that is missing, truncated, of another kind or version, or whose settings do not agree.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let version: i64 = file.attr("/", "shardmark_reference")?;
        if version != VERSION {
            return Err(content(&file, "format version", &VERSION, &version));
        }
        let case = read_case(&file)?;
        if !matches!(case.norm, Norm::None | Norm::Global) {
            return Err(content(&file, "norm", &"none or global", &case.norm));
        }
        let word = |name: &str, words: [&str; 2]| -> Result<bool> {
            let got: String = file.attr("/", name)?;
            match words.iter().position(|w| *w == got) {
                Some(i) => Ok(i == 0),
                None => Err(content(&file, name, &words.join(" or "), &got)),
            }
        };
        let loss = if word("loss", ["mse", "mae"])? { Loss::Mse } else { Loss::Mae };
        let (digest, stored) = (word("results", ["digest", "full"])?, word("start", ["stored", "counter"])?);
        let steps: i64 = file.attr("/", "steps")?;
        let steps = usize::try_from(steps).map_err(|_| content(&file, "steps", &"0 or more", &steps))?;
        let input_scale = if stored { 1.0 } else { file.attr("/", "input_scale")? };
        Ok(ReferenceFile { network: network::cosmoflow(&case), case, loss, steps, stored, digest, input_scale, file })
    }

    /// The optimizer and its settings.
    pub fn optimizer(&self) -> OptimSpec {
        network::optimizer(&self.case)
    }

    /// Seed of weights, dropout masks and counter-based input.
    pub fn seed(&self) -> u64 {
        self.case.seed
    }

    /// Stored start values of a parameter.
    ///
    /// # Errors
    /// When the tensor is missing or has another shape.
    pub fn weights(&self, name: &str, spec: &ParamSpec) -> Result<Vec<f64>> {
        self.tensor::<f32>(&format!("weights/{name}"), &spec.shape)
    }

    /// The input on `region` (channels last, border included as zeros).
    ///
    /// # Errors
    /// When the dataset is missing or has another shape.
    pub fn input<T: Real>(&self, region: Region) -> Result<Block<T>> {
        let [d, h, w] = self.network.volume;
        let shape = [self.network.batch, self.network.channels, d, h, w];
        self.block("input", region, shape, &|index| {
            (4.0 * rng::uniform(self.seed(), STREAM_INPUT, index) - 1.0) * self.input_scale
        })
    }

    /// The target on `region`.
    ///
    /// # Errors
    /// When the dataset is missing or has another shape.
    pub fn target<T: Real>(&self, region: Region) -> Result<Block<T>> {
        let shape = [self.network.batch, TARGETS, 1, 1, 1];
        self.block("target", region, shape, &|index| 2.0 * rng::uniform(self.seed(), STREAM_TARGET, index) - 1.0)
    }

    /// Part of an array `[N, C, D, H, W]` (or `[N, C]`) as a block `[N, D, H, W, C]`.
    fn block<T: Real>(
        &self,
        name: &str,
        region: Region,
        shape: [usize; 5],
        rule: &dyn Fn(u64) -> f64,
    ) -> Result<Block<T>> {
        let [n, c, d, h, w] = shape;
        let inside = Region::full([n, d, h, w, c]).intersect(&region);
        let mut block = Block::zeros(region);
        if inside.is_empty() {
            return Ok(block);
        }
        let [n, d, h, w, c] = inside.0;
        let ranges = [n, c, d, h, w].map(|span| span.lo as usize..span.hi as usize);
        let values = if self.stored {
            let stored = if name == "target" { &shape[..2] } else { &shape[..] };
            self.expect_shape(name, stored)?;
            self.file.read_slab::<f32>(name, &ranges[..stored.len()])?.0
        } else {
            let mut values = Vec::with_capacity(inside.len());
            each(&ranges, |at| {
                let index = at.iter().zip(&shape).fold(0, |index, (&i, &extent)| index * extent as u64 + i as u64);
                values.push(rule(index) as f32);
            });
            values
        };
        let mut values = values.into_iter();
        each(&ranges, |[n, c, d, h, w]| {
            let at = block.offset([n, d, h, w].map(|i| i as i64)) + c - region.0[4].lo as usize;
            block.data_mut()[at] = T::from_f64(values.next().map_or(0.0, f64::from));
        });
        Ok(block)
    }

    /// What is expected of a prediction (`output`, `evaluation`).
    ///
    /// # Errors
    /// When the dataset is missing or has another shape.
    pub fn prediction(&self, name: &str) -> Result<Expected> {
        self.all(name, &[self.network.batch, TARGETS])
    }

    /// What is expected of the losses before each step. PyTorch's own error of a few numbers may be small by chance: it
    /// counts at least what its prediction's error can make of it, 2 sqrt(loss) times that for the mean square
    /// (Cauchy-Schwarz), the same for the mean absolute error.
    ///
    /// # Errors
    /// When a dataset is missing or has another shape.
    pub fn losses(&self) -> Result<Expected> {
        let mut losses = self.all("losses", &[self.steps.max(1)])?;
        let slope = match self.loss {
            Loss::Mse => 2.0 * losses.max_abs.sqrt(),
            Loss::Mae => 1.0,
        };
        let output = self.prediction("output")?;
        losses.error = losses.error.zip(output.error).map(|(own, output)| own.max(slope * output));
        Ok(losses)
    }

    /// Whether the file has running statistics of batch norm after the first forward pass.
    pub fn has_buffers(&self) -> bool {
        self.file.exists("buffers")
    }

    /// What is expected of tensor number `index` of a group (`grads`, `weights_after`, `buffers`).
    ///
    /// # Errors
    /// When the tensor is missing or has another shape.
    pub fn expected(&self, group: &str, index: usize, name: &str, shape: &[usize]) -> Result<Expected> {
        let after_adam = group == "weights_after" && self.case.optimizer == Optimizer::Adam;
        let ulps = if after_adam { ULPS_AFTER_ADAM } else { ULPS };
        let kinks = format!("kinks/{name}");
        let name = format!("{group}/{name}");
        if !self.digest {
            let kinks = self.kinks(group, &kinks, shape)?;
            return Ok(Expected { ulps, kinks, ..self.all(&name, shape)? });
        }
        let len = shape.iter().product();
        let samples: i64 = self.file.attr("/", "samples")?;
        let at = sampled(self.seed(), index, len, samples.max(1) as usize);
        let values = self.tensor::<f64>(&name, &[at.len()])?;
        let number = |key: &str| self.file.attr::<f64>(&name, key);
        Ok(Expected {
            len,
            values,
            max_abs: number("max_abs")?,
            error: Some(number("error")?),
            ulps,
            kinks: self.kinks(group, &kinks, &[at.len()])?,
            whole: Some(Whole { at, sum: number("sum")?, norm: number("norm")?, error_norm: number("error_norm")? }),
            name,
        })
    }

    /// What kinks may make of a gradient, from dataset `name`, or of weights after SGD. Into these goes every step's
    /// gradient, each as uncertain as the first's largest value wherever its own kinks lie, as often as momentum
    /// repeats it. Adam's steps follow a gradient's sign more than its size: their roundings are allowance enough.
    fn kinks(&self, group: &str, name: &str, shape: &[usize]) -> Result<Kinks> {
        if !self.file.exists(name) {
            return Ok(Kinks::default());
        }
        let norm: f64 = self.file.attr(name, "norm")?;
        match (group, self.optimizer()) {
            ("grads", _) => Ok(Kinks { values: self.tensor::<f32>(name, shape)?, norm }),
            ("weights_after", OptimSpec::Sgd { lr, momentum, .. }) => {
                let repeats = |step: usize| (0..=step).map(|age| momentum.powi(age as i32)).sum::<f64>();
                let factor = lr * (0..self.steps).map(repeats).sum::<f64>();
                let largest: f64 = self.file.attr(name, "max_abs")?;
                let values = vec![factor * largest; shape.iter().product()];
                Ok(Kinks { values, norm: factor * norm })
            }
            _ => Ok(Kinks::default()),
        }
    }

    fn all(&self, name: &str, shape: &[usize]) -> Result<Expected> {
        let single = self.tensor::<f32>(name, shape)?;
        let has_double = self.digest || self.file.exists("f64");
        let double = if has_double { Some(self.tensor::<f64>(&format!("f64/{name}"), shape)?) } else { None };
        Ok(Expected::all(name, single, double))
    }

    /// Checks that stored dropout masks of a layer of `features` values follow the rule: `kept(step, index)`.
    ///
    /// # Errors
    /// When they are missing or others.
    pub fn check_masks(&self, layer: &str, features: usize, kept: impl Fn(u64, u64) -> bool) -> Result<()> {
        let name = format!("masks/{layer}");
        let len = self.network.batch * features;
        self.expect_shape(&name, &[self.steps.max(1), self.network.batch, features])?;
        let (masks, _) = self.file.read::<u8>(&name)?;
        match (0..masks.len()).find(|&i| (masks[i] != 0) != kept((i / len) as u64, (i % len) as u64)) {
            Some(i) => Err(content(&self.file, &name, &"the counter-based mask", &format!("another at {i}"))),
            None => Ok(()),
        }
    }

    fn tensor<E: shardmark_h5::Elem + Into<f64>>(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        self.expect_shape(name, shape)?;
        let (values, _) = self.file.read::<E>(name)?;
        Ok(values.into_iter().map(Into::into).collect())
    }

    fn expect_shape(&self, name: &str, shape: &[usize]) -> Result<()> {
        let got = self.file.shape(name)?;
        if got == shape { Ok(()) } else { Err(content(&self.file, name, &format!("{shape:?}"), &format!("{got:?}"))) }
    }
}

/// Places of the samples of a tensor: one in each of `count` equal parts, or all if there are at most as many.
fn sampled(seed: u64, index: usize, len: usize, count: usize) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let place = |s: usize| {
        let u = rng::uniform(seed, STREAM_SAMPLES + index as u64, s as u64);
        ((s as f64 + u) * len as f64 / count as f64) as usize
    };
    (0..count).map(place).collect()
}

/// Visits every index of a box of five ranges, the last fastest.
fn each(ranges: &[std::ops::Range<usize>; 5], mut visit: impl FnMut([usize; 5])) {
    let [a, b, c, d, e] = ranges.clone();
    for i in a {
        for j in b.clone() {
            for k in c.clone() {
                for l in d.clone() {
                    e.clone().for_each(|m| visit([i, j, k, l, m]));
                }
            }
        }
    }
}

/// The settings as a case: a case line made of the attributes.
fn read_case(file: &File) -> Result<Case> {
    let workload: String = file.attr("/", "workload")?;
    let mut line = workload;
    let mut add = |key: &str| -> Result<()> {
        line += &format!(" {key}={}", attr_text(file, key)?);
        Ok(())
    };
    KEYS.iter().try_for_each(|key| add(key))?;
    let optimizer: String = file.attr("/", "optimizer")?;
    let settings: &[&str] = if optimizer == "adam" { &["lr", "beta1", "beta2", "eps"] } else { &["lr", "momentum"] };
    settings.iter().try_for_each(|key| add(key))?;
    Case::parse(&line).map_err(|source| ReferenceError::Case { path: file.path().display().to_string(), source })
}

/// An attribute as it stands in a case line.
fn attr_text(file: &File, key: &str) -> Result<String> {
    if let Ok(text) = file.attr::<String>("/", key) {
        return Ok(text);
    }
    match file.attr::<i64>("/", key) {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Ok(file.attr::<f64>("/", key)?.to_string()),
    }
}

fn content(file: &File, what: &str, expected: &dyn std::fmt::Display, got: &dyn std::fmt::Display) -> ReferenceError {
    let [expected, got] = [expected.to_string(), got.to_string()];
    ReferenceError::Content { path: file.path().display().to_string(), what: what.into(), expected, got }
}
