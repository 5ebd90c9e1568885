//! Which records belong to one scaling curve: the same problem, on different numbers of ranks.

use std::collections::BTreeMap;
use std::fmt;

use shardmark_store::{Record, Source};

/// How the problem changes with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The global problem is fixed.
    Strong,
    /// The batch grows.
    WeakSample,
    /// The volume grows.
    WeakSpace,
}

impl Mode {
    fn of(record: &Record) -> Self {
        match (record.setting("mode"), record.setting("axis")) {
            (Some("weak"), Some("space")) => Mode::WeakSpace,
            (Some("weak"), _) => Mode::WeakSample,
            _ => Mode::Strong,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Strong => "strong scaling",
            Mode::WeakSample => "weak scaling over samples",
            Mode::WeakSpace => "weak scaling over space",
        })
    }
}

/// What is equal along a scaling curve. In weak scaling, `batch` and `width` are those of one part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// How it scales.
    pub mode: Mode,
    /// Measured, predicted or simulated.
    pub source: Source,
    /// The settings that define it.
    pub settings: BTreeMap<String, String>,
}

/// Settings that may differ along a curve: what varies with the ranks, and how long and carefully was measured.
const NOT_THE_PROBLEM: [&str; 12] = [
    "ranks",
    "grid",
    "mode",
    "axis",
    "steps",
    "warmup",
    "repeat",
    "check",
    "detail",
    "hang_limit",
    "timeout",
    "validate",
];

/// Settings that name a problem even if all problems of a page share them.
const TITLE: [&str; 5] = ["workload", "net", "width", "norm", "batch"];
/// The same for a single layer, an allreduce and a halo.
const LAYER: [&str; 2] = ["workload", "batch"];
const ALLREDUCE: [&str; 2] = ["workload", "bytes"];
const HALO: [&str; 4] = ["workload", "width", "channels", "batch"];

impl Problem {
    /// The problem of a record.
    pub fn of(record: &Record) -> Self {
        let mode = Mode::of(record);
        let mut settings = record.case.settings.clone();
        settings.retain(|key, _| !NOT_THE_PROBLEM.contains(&key.as_str()));
        let grid = sizes(record.setting("grid").unwrap_or(""));
        if let (true, [samples, space @ ..]) = (mode != Mode::Strong, &grid[..]) {
            let share = |value: Option<&str>, parts: &[usize]| share(&sizes(value?), parts);
            if let Some(batch) = share(record.setting("batch"), &[*samples]) {
                settings.insert("batch".to_owned(), batch);
            }
            if let (Mode::WeakSpace, Some(width)) = (mode, share(record.setting("width"), space)) {
                settings.insert("width".to_owned(), width);
            }
        }
        Problem { mode, source: record.source, settings }
    }

    /// The layer of a single-layer workload, in words.
    pub fn layer(&self) -> Option<String> {
        Some(self.settings.get("workload")?.strip_prefix("layer:")?.replace('/', " "))
    }

    /// Whether it is communication alone.
    pub fn is_bare(&self) -> bool {
        self.settings.get("workload").is_some_and(|workload| workload.starts_with("comm:"))
    }

    /// The settings that name it.
    fn names(&self) -> &'static [&'static str] {
        match self.settings.get("workload").map(String::as_str) {
            Some("comm:allreduce") => &ALLREDUCE,
            Some("comm:halo") => &HALO,
            Some(workload) if workload.starts_with("layer:") => &LAYER,
            _ => &TITLE,
        }
    }

    /// The line above a table: the naming settings, and those that differ from `others`.
    pub fn title(&self, others: &[&Problem]) -> String {
        let differs = |key: &str| others.iter().any(|other| self.differs(other, key));
        let mut words = Vec::new();
        for &key in self.names() {
            if let Some(value) = self.settings.get(key) {
                words.push(if key == "workload" { value.clone() } else { format!("{key}={value}") });
            }
        }
        for (key, value) in &self.settings {
            if !self.names().contains(&key.as_str()) && (key == "transport" || differs(key)) {
                words.push(format!("{key}={value}"));
            }
        }
        let per_part = match self.mode {
            Mode::Strong => "",
            Mode::WeakSample => " (batch per part)",
            Mode::WeakSpace => " (batch and width per part)",
        };
        format!("{} of {}{per_part}, {}", self.mode, words.join(" "), self.source)
    }

    /// Whether a key tells two problems apart. Those of different workloads have different keys, which the workload tells.
    fn differs(&self, other: &Problem, key: &str) -> bool {
        let [own, others] = [self, other].map(|problem| problem.settings.get(key));
        let one_kind = self.settings.get("workload") == other.settings.get("workload");
        own != others && (one_kind || own.is_some() && others.is_some())
    }

    /// A name for a legend with one entry, such as `cosmoflow 128³`.
    pub fn name(&self) -> String {
        let text = |key: &str| self.settings.get(key).map_or("", String::as_str);
        let width = if self.names().contains(&"width") { cube(text("width")) } else { String::new() };
        format!("{} {width}", text("workload").replace('/', " ")).trim().to_owned()
    }

    /// The shortest text that tells this problem from the `others` in a legend; empty if there is nothing to tell.
    pub fn label(&self, others: &[&Problem]) -> String {
        let mut words = Vec::new();
        let mut keys: Vec<&str> = TITLE.to_vec();
        keys.extend(self.settings.keys().map(String::as_str).filter(|key| !TITLE.contains(key)));
        for key in keys {
            let own = self.settings.get(key);
            if !others.iter().any(|other| self.differs(other, key)) {
                continue;
            }
            let value = own.map_or("-", String::as_str);
            words.push(match key {
                "workload" => value.replace('/', " "),
                "transport" => value.to_owned(),
                "width" => cube(value),
                _ => format!("{key} {value}"),
            });
        }
        if others.iter().any(|other| other.source != self.source) {
            words.push(self.source.name().to_owned());
        }
        words.join(", ")
    }
}

/// `64` as 64³, `64x64x32` as 64×64×32.
fn cube(width: &str) -> String {
    if width.is_empty() || width.contains('x') { width.replace('x', "×") } else { format!("{width}³") }
}

/// `extents / parts` in each axis as text, `None` unless each divides. One extent stands for all axes.
fn share(extents: &[usize], parts: &[usize]) -> Option<String> {
    let full = if extents.len() == 1 { vec![extents[0]; parts.len()] } else { extents.to_vec() };
    if full.len() != parts.len() || full.iter().zip(parts).any(|(&n, &p)| p == 0 || n % p != 0) {
        return None;
    }
    let shares: Vec<usize> = full.iter().zip(parts).map(|(n, p)| n / p).collect();
    if shares.windows(2).all(|pair| pair[0] == pair[1]) {
        return shares.first().map(usize::to_string);
    }
    Some(shares.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
}

/// The numbers of `1x2x2x1`; empty if there is something else between the `x`.
pub fn sizes(text: &str) -> Vec<usize> {
    text.split('x').map(|part| part.parse().ok()).collect::<Option<_>>().unwrap_or_default()
}
