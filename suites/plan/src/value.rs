//! The types that keys of a case can have, each with its text form.

use std::fmt;

use shardmark_partition::Dim;
pub use shardmark_partition::Grid;
use shardmark_problem::LayerLine;

/// A type that is written as one word (or one quoted string) in a case line.
pub trait Value: Sized {
    /// Reads the text form; `None` if the text does not have it.
    fn read(text: &str) -> Option<Self>;
    /// Writes the text form; `read(print(x)) == x`.
    fn print(&self) -> String;
}

macro_rules! plain {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
plain!(usize, u64);

impl Value for f64 {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

/// `none`, or a value.
impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Option<Self> {
        if text == "none" { Some(None) } else { T::read(text).map(Some) }
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "none".into(), T::print)
    }
}

/// `auto` (whoever uses the value chooses it), or a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Setting<T> {
    /// Chosen by the code that uses it.
    Auto,
    /// Given.
    Given(T),
}

impl<T: Copy> Setting<T> {
    /// The given value, if there is one.
    pub fn given(&self) -> Option<T> {
        match self {
            Setting::Auto => None,
            Setting::Given(value) => Some(*value),
        }
    }
}

impl<T: Value> Value for Setting<T> {
    fn read(text: &str) -> Option<Self> {
        if text == "auto" { Some(Setting::Auto) } else { T::read(text).map(Setting::Given) }
    }
    fn print(&self) -> String {
        match self {
            Setting::Auto => "auto".into(),
            Setting::Given(value) => value.print(),
        }
    }
}

/// Enums whose variants are single words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word that stands for the value.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl Value for $name {
            fn read(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == text)
            }
            fn print(&self) -> String {
                self.word().into()
            }
        }
    )+};
}
pub(crate) use words;

words! {
    /// Which variant of the network.
    Net {
        /// As released with the 2020 paper.
        Paper2020 = "2020",
        /// The MLPerf-HPC reference network.
        Mlperf = "mlperf",
    }
    /// Batch norm and over which ranks its statistics are taken.
    Norm {
        /// No batch norm.
        None = "none",
        /// Statistics of each rank's own values.
        Local = "local",
        /// Statistics over the ranks that share a sample.
        Spatial = "spatial",
        /// Statistics over all ranks.
        Global = "global",
    }
    /// How ranks talk to each other.
    Transport {
        /// Ranks are threads of one process.
        Threads = "threads",
        /// Ranks are processes started by an MPI launcher.
        Mpi = "mpi",
    }
    /// What stays fixed while ranks are added.
    Mode {
        /// The global problem.
        Strong = "strong",
        /// The problem of one rank.
        Weak = "weak",
    }
    /// What grows with the ranks in weak scaling.
    Axis {
        /// The batch.
        Sample = "sample",
        /// The volume, in the dimensions that are split.
        Space = "space",
    }
    /// The optimizer.
    Optimizer {
        /// Stochastic gradient descent with momentum.
        Sgd = "sgd",
        /// Adam.
        Adam = "adam",
    }
    /// The loss, a mean over samples and outputs.
    Loss {
        /// Mean squared error.
        Mse = "mse",
        /// Mean absolute error.
        Mae = "mae",
    }
    /// The rule for the start values of weights.
    Init {
        /// Uniform with limit sqrt(6 / fan_in) (He et al. 2015).
        He = "he",
        /// Uniform with limit sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
        Glorot = "glorot",
    }
    /// How convolutions are computed.
    Conv {
        /// Over tiles (Winograd 1980) where that takes less time, else directly.
        Auto = "auto",
        /// Every product of the definition.
        Direct = "direct",
    }
    /// What is done to the input after reading.
    Transform {
        /// Nothing.
        None = "none",
        /// ln(1 + x).
        Log1p = "log1p",
        /// x - 1: the contrast of a density in units of its mean.
        Contrast = "contrast",
        /// (x - mean) / standard deviation, both of the first training sample, channel by channel.
        Standard = "standard",
    }
    /// How much is compared with the serial run before timing.
    Check {
        /// Nothing: the case is marked as unchecked.
        None = "none",
        /// The loss and the gradients of the first step.
        Quick = "quick",
        /// Also outputs, all tensors by name and the weights after the steps.
        Full = "full",
    }
    /// Per-layer times of which ranks are stored.
    Detail {
        /// All ranks.
        All = "all",
        /// The slowest, the fastest and the median rank.
        Extremes = "extremes",
        /// None.
        None = "none",
    }
    /// The type of the elements of tensors.
    Element {
        /// 32-bit floating point.
        F32 = "f32",
    }
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Workload {
    /// The CosmoFlow network (Oyama et al. 2020).
    Cosmoflow,
    /// One layer, forward and backward: its line without `n`, which is the case's batch. Written
    /// `layer:conv2d/c=3/k=64/in=224x224/kernel=7/stride=2/pad=3`, one word; blanks may stand for the slashes.
    Layer(String),
    /// An allreduce of the case's bytes, alone.
    Allreduce,
    /// The exchange of all sides of a volume, one voxel deep, alone.
    Halo,
}

impl Value for Workload {
    fn read(text: &str) -> Option<Self> {
        match text {
            "cosmoflow" => Some(Workload::Cosmoflow),
            "comm:allreduce" => Some(Workload::Allreduce),
            "comm:halo" => Some(Workload::Halo),
            _ => {
                let words: Vec<&str> =
                    text.strip_prefix("layer:")?.split(['/', ' ']).filter(|word| !word.is_empty()).collect();
                // A line that is wrong keeps its words: whoever needs the layer tells what is wrong with them.
                let line = words.join(" ");
                let line = match format!("{line} n=1").parse::<LayerLine>() {
                    Ok(layer) => layer.to_string().replacen(" n=1", "", 1),
                    Err(_) => line,
                };
                Some(Workload::Layer(line))
            }
        }
    }
    fn print(&self) -> String {
        match self {
            Workload::Cosmoflow => "cosmoflow".into(),
            Workload::Layer(line) => format!("layer:{}", line.replace(' ', "/")),
            Workload::Allreduce => "comm:allreduce".into(),
            Workload::Halo => "comm:halo".into(),
        }
    }
}

/// A number of bytes; written with the largest of the units GiB, MiB and KiB that divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Value for Bytes {
    fn read(text: &str) -> Option<Self> {
        let unit = UNITS.iter().find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)));
        let (number, size) = unit.unwrap_or((text, 1));
        number.parse::<u64>().ok()?.checked_mul(size).map(Bytes)
    }
    fn print(&self) -> String {
        let unit = UNITS.iter().find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        unit.map_or_else(|| self.0.to_string(), |(name, size)| format!("{}{name}", self.0 / size))
    }
}

/// Parts along sample, depth, height and width; written `NxDxHxW`.
impl Value for Grid {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok().filter(|grid: &Grid| grid.parts(Dim::C) == 1)
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

/// Depth, height and width of the input in voxels; written `128` if they are equal, else `DxHxW`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Volume(pub [usize; 3]);

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.print())
    }
}

impl Value for Volume {
    fn read(text: &str) -> Option<Self> {
        match sizes(text)?[..] {
            [width] => Some(Volume([width; 3])),
            [d, h, w] => Some(Volume([d, h, w])),
            _ => None,
        }
    }
    fn print(&self) -> String {
        let [d, h, w] = self.0;
        if d == h && h == w { d.to_string() } else { format!("{d}x{h}x{w}") }
    }
}

/// Positive numbers joined by `x`.
fn sizes(text: &str) -> Option<Vec<usize>> {
    text.split('x').map(|part| part.parse().ok().filter(|&size: &usize| size > 0)).collect()
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Seeded random values, made on each rank.
    Synthetic,
    /// A directory of sample files.
    Dataset(String),
}

impl Value for Input {
    fn read(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "synthetic" => Some(Input::Synthetic),
            path => Some(Input::Dataset(path.into())),
        }
    }
    fn print(&self) -> String {
        match self {
            Input::Synthetic => "synthetic".into(),
            Input::Dataset(path) => path.clone(),
        }
    }
}

/// The layer from whose output on samples are no longer split in space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// The published one: `pool5` of the 2020 network, else where the volume is flattened; or an earlier one on grids where
    /// parameters below it are worth dividing.
    Auto,
    /// The layer of this name.
    Layer(String),
}

impl Value for Tail {
    fn read(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "auto" => Some(Tail::Auto),
            name => Some(Tail::Layer(name.into())),
        }
    }
    fn print(&self) -> String {
        match self {
            Tail::Auto => "auto".into(),
            Tail::Layer(name) => name.clone(),
        }
    }
}
