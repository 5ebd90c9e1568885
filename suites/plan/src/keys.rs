//! The one table of keys: what parses, prints, documents and refuses.

use crate::case::Case;
use crate::value::Value;

/// One key of a case.
#[derive(Debug)]
pub struct Key {
    /// Its name, in case lines, suites, `-S` and (as `SHARDMARK_<NAME>`) the environment.
    pub name: &'static str,
    /// What values it takes.
    pub form: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Whether the short line names it even when it has its default.
    pub always: bool,
    /// The text of its value in a case.
    pub get: fn(&Case) -> String,
    /// Sets it from text; `false` if the text does not have the form.
    pub set: fn(&mut Case, &str) -> bool,
}

impl Key {
    /// The text of its default.
    pub fn default(&self) -> String {
        (self.get)(&Case::default())
    }
}

/// A row of the table for the field of the same name.
macro_rules! key {
    ($field:ident, $always:literal, $form:literal, $doc:literal) => {
        Key {
            name: stringify!($field),
            form: $form,
            doc: $doc,
            always: $always,
            get: |case| case.$field.print(),
            set: |case, text| Value::read(text).map(|value| case.$field = value).is_some(),
        }
    };
}

/// All keys, in the order in which a case line prints them; the first is printed as a bare word.
pub const KEYS: &[Key] = &[
    key!(
        workload,
        true,
        "cosmoflow | layer:LINE | comm:allreduce | comm:halo",
        "what runs; in a case line the first word. LINE: conv2d/c=3/k=64/in=56x56/kernel=3/stride=1/pad=1 and the like"
    ),
    key!(net, true, "2020 | mlperf", "the 2020 paper's network or the MLPerf-HPC reference network"),
    key!(
        width,
        true,
        "WIDTH or DxHxW (voxels)",
        "size of the input volume; in weak scaling over space, of one rank's share"
    ),
    key!(channels, false, "a number", "input channels (redshifts); of comm:halo, those of its volume"),
    key!(bytes, false, "a number, also with KiB, MiB or GiB", "comm:allreduce: payload of each rank, of f32"),
    key!(
        norm,
        true,
        "none | local | spatial | global",
        "batch norm, and the ranks its statistics cover: own, same sample, all (also of layer:batch_norm with none)"
    ),
    key!(batch, true, "a number", "global batch in samples; in a weak suite, per part of the batch"),
    key!(grid, true, "NxDxHxW", "parts along sample, depth, height, width; in a suite also auto, auto:d, auto:nd ..."),
    key!(ranks, true, "a number", "ranks, the product of the grid; in a suite, what `auto` grids factor"),
    key!(threads_per_rank, false, "a number", "threads that share a rank's kernels; the results do not depend on it"),
    key!(transport, true, "threads | mpi", "ranks are threads of one process, or MPI processes"),
    key!(mode, true, "strong | weak", "what is fixed while ranks grow: the global problem, or one rank's"),
    key!(axis, false, "none | sample | space", "weak scaling only: what grows with the ranks"),
    key!(steps, true, "a number", "timed optimizer steps a repeat"),
    key!(warmup, true, "a number", "steps before the timed ones, kept and flagged"),
    key!(repeat, true, "a number", "how often the timed steps are repeated from the same start"),
    key!(epochs, false, "a number", "passes over the dataset instead of steps; 0: count steps"),
    key!(validate, false, "a number", "validation samples of the dataset that are evaluated after each epoch"),
    key!(optimizer, false, "sgd | adam", "the optimizer"),
    key!(lr, false, "a number", "learning rate"),
    key!(momentum, false, "a number", "momentum of sgd"),
    key!(beta1, false, "a number", "decay of adam's first moment"),
    key!(beta2, false, "a number", "decay of adam's second moment"),
    key!(eps, false, "a number", "adam's epsilon"),
    key!(loss, false, "mse | mae", "mean squared or mean absolute error"),
    key!(init, false, "he | glorot", "start values of weights: Kaiming's or Glorot's uniform ones"),
    key!(dropout, false, "auto | a fraction", "fraction dropped; auto: the network's own"),
    key!(input, false, "synthetic | a directory", "where samples come from"),
    key!(transform, false, "none | log1p | contrast | standard", "what is done to the input after reading"),
    key!(
        tail,
        false,
        "auto | flatten | a layer's name",
        "the layer from which on samples are not split in space; auto: the published one, or one before it if that is faster"
    ),
    key!(
        conv,
        false,
        "auto | direct",
        "how convolutions are computed; auto: over tiles, with fewer products (Winograd), where that is faster"
    ),
    key!(seed, true, "a number", "seed of weights, dropout and synthetic input"),
    key!(check, true, "none | quick | full", "how much is compared with the serial run before timing"),
    key!(detail, false, "all | extremes | none", "ranks whose per-layer times are stored"),
    key!(
        hang_limit,
        false,
        "auto | seconds",
        "longest wait in one operation; auto: max(60 s, 10x the slowest finished step)"
    ),
    key!(timeout, false, "none | seconds", "longest time for the whole case"),
    key!(element, false, "f32", "type of the elements of tensors"),
];

/// The key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The names of all keys.
pub fn names() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).collect()
}
