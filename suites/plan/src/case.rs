//! A case: one run of one configuration, and its one line of text.
//!
//! `cosmoflow net=2020 width=32 norm=none batch=4 grid=2x2x1x1 ranks=4 transport=threads mode=strong steps=5 ...`: the
//! workload, then `key=value` in any order, each key at most once. [`Case::fmt`] leaves out what has its default (a
//! label, a repro); [`Case::resolved`] names every key (what is stored and hashed).

use std::collections::BTreeMap;
use std::fmt;

use shardmark_host::MOST_THREADS;
use shardmark_problem::{Kind, LayerLine, LineError, MOST_ELEMENTS, too_many};

use crate::error::PlanError;
use crate::keys::{self, KEYS, Key};
use crate::value::{
    Axis, Bytes, Check, Conv, Detail, Element, Grid, Init, Input, Loss, Mode, Net, Norm, Optimizer, Setting, Tail,
    Transform, Transport, Value, Volume, Workload,
};

/// One run of one configuration; each field is documented in [`KEYS`] under its own name.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Case {
    pub workload: Workload,
    pub net: Net,
    pub width: Volume,
    pub channels: usize,
    pub bytes: Bytes,
    pub norm: Norm,
    pub batch: usize,
    pub grid: Grid,
    pub ranks: usize,
    /// Threads of a rank.
    pub threads_per_rank: usize,
    pub transport: Transport,
    pub mode: Mode,
    pub axis: Option<Axis>,
    pub steps: usize,
    pub warmup: usize,
    pub repeat: usize,
    pub epochs: usize,
    pub validate: usize,
    pub optimizer: Optimizer,
    pub lr: f64,
    pub momentum: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub loss: Loss,
    pub init: Init,
    pub dropout: Setting<f64>,
    pub input: Input,
    pub transform: Transform,
    pub tail: Tail,
    pub conv: Conv,
    pub seed: u64,
    pub check: Check,
    pub detail: Detail,
    pub hang_limit: Setting<f64>,
    pub timeout: Option<f64>,
    pub element: Element,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            workload: Workload::Cosmoflow,
            net: Net::Paper2020,
            width: Volume([32; 3]),
            channels: 4,
            // The gradients of CosmoFlow.
            bytes: Bytes(36 << 20),
            norm: Norm::None,
            batch: 1,
            grid: Grid::single(),
            ranks: 1,
            threads_per_rank: 1,
            transport: Transport::Threads,
            mode: Mode::Strong,
            axis: None,
            steps: 5,
            warmup: 1,
            repeat: 1,
            epochs: 0,
            validate: 0,
            optimizer: Optimizer::Adam,
            // The 2020 paper's Adam.
            lr: 0.001,
            momentum: 0.9,
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            loss: Loss::Mse,
            init: Init::He,
            dropout: Setting::Auto,
            input: Input::Synthetic,
            transform: Transform::None,
            tail: Tail::Auto,
            conv: Conv::Auto,
            seed: 1,
            check: Check::Quick,
            detail: Detail::All,
            hang_limit: Setting::Auto,
            timeout: None,
            element: Element::F32,
        }
    }
}

impl Case {
    /// Reads a case line. Keys that are missing have their defaults; `ranks` defaults to the product of the grid.
    ///
    /// # Errors
    /// A word that is not `key=value`, an unknown or repeated key, a value without the key's form, values that do not
    /// agree.
    pub fn parse(line: &str) -> Result<Case, PlanError> {
        let mut case = Case::default();
        let mut seen: Vec<&str> = Vec::new();
        for (index, (name, value)) in words(line)?.iter().enumerate() {
            // The workload is the bare first word.
            let (name, value) = match (index, value) {
                (0, None) => ("workload", name.as_str()),
                (_, Some(value)) => (name.as_str(), value.as_str()),
                (_, None) => return Err(PlanError::NotAPair { word: name.clone() }),
            };
            let key = find(name, "case line").map_err(|error| case.one_word(name, error))?;
            if seen.contains(&key.name) {
                return Err(PlanError::Twice { key: name.into() });
            }
            case.set(key, value, "case line")?;
            seen.push(key.name);
        }
        if !seen.contains(&"ranks") {
            case.ranks = case.grid.size();
        }
        case.validate()?;
        Ok(case)
    }

    /// What an unknown key in a case line is if the workload is a layer: a word of the layer's own.
    fn one_word(&self, key: &str, error: PlanError) -> PlanError {
        match self.workload {
            Workload::Layer(_) => PlanError::Conflict {
                what: "case line".into(),
                expected: "the layer as one word".into(),
                got: format!("{key} after a blank"),
                remedy: "join its words by slashes: layer:conv2d/c=3/k=64 ...".into(),
            },
            _ => error,
        }
    }

    /// Sets one key from text; `place` goes into the error.
    ///
    /// # Errors
    /// A value without the key's form.
    pub fn set(&mut self, key: &'static Key, value: &str, place: &str) -> Result<(), PlanError> {
        if (key.set)(self, value) {
            return Ok(());
        }
        Err(PlanError::BadValue { place: place.into(), key: key.name, form: key.form.into(), value: value.into() })
    }

    /// Checks that the values agree with each other.
    ///
    /// # Errors
    /// A count of zero, a number out of its range, ranks that are not the grid's, weak scaling without an axis, a key that
    /// changes nothing about the workload, ...
    pub fn validate(&self) -> Result<(), PlanError> {
        self.validate_meaning()?;
        let product = self.grid.size();
        if product != self.ranks {
            let got = format!("ranks={}", self.ranks);
            let expected = format!("ranks={product} for grid={}", self.grid);
            return conflict("ranks", &expected, &got, "leave ranks out or correct the grid");
        }
        for (name, count) in [
            ("channels", self.channels),
            ("batch", self.batch),
            ("repeat", self.repeat),
            ("threads_per_rank", self.threads_per_rank),
        ] {
            if count == 0 {
                return conflict(name, "at least 1", "0", "give a positive number");
            }
        }
        self.validate_sizes()?;
        if self.steps == 0 && self.epochs == 0 {
            return conflict("steps", "at least 1 step or epoch", "0", "set steps or epochs");
        }
        if self.epochs > 0 && self.input == Input::Synthetic {
            return conflict("epochs", "a dataset to pass over", "input=synthetic", "set input to a directory");
        }
        self.validate_workload()?;
        match (self.mode, self.axis) {
            (Mode::Weak, None) => {
                return conflict("axis", "sample or space in weak scaling", "none", "name what grows with the ranks");
            }
            (Mode::Strong, Some(axis)) => {
                return conflict("axis", "none in strong scaling", axis.word(), "remove it or set mode to weak");
            }
            _ => {}
        }
        let fraction = |value: f64| (0.0..1.0).contains(&value);
        let positive = |value: f64| value > 0.0;
        let seconds = |value: f64| value > 0.0 && value <= 1e9;
        for (name, right, range, value) in [
            ("lr", self.lr >= 0.0, "at least 0", self.lr),
            ("momentum", fraction(self.momentum), "0 <= x < 1", self.momentum),
            ("beta1", fraction(self.beta1), "0 <= x < 1", self.beta1),
            ("beta2", fraction(self.beta2), "0 <= x < 1", self.beta2),
            ("eps", positive(self.eps), "more than 0", self.eps),
            ("dropout", self.dropout.given().is_none_or(fraction), "0 <= x < 1", self.dropout.given().unwrap_or(0.0)),
            (
                "hang_limit",
                self.hang_limit.given().is_none_or(seconds),
                "0 < x <= 1e9 s",
                self.hang_limit.given().unwrap_or(0.0),
            ),
            ("timeout", self.timeout.is_none_or(seconds), "0 < x <= 1e9 s", self.timeout.unwrap_or(0.0)),
        ] {
            if !right {
                return conflict(name, range, &value.to_string(), "give a value in that range");
            }
        }
        Ok(())
    }

    /// Sizes whose bytes, several times over, fit into every integer that counts them.
    fn validate_sizes(&self) -> Result<(), PlanError> {
        const MOST: usize = 1_000_000_000;
        let counts = [
            ("channels", self.channels, MOST),
            ("batch", self.batch, MOST),
            ("repeat", self.repeat, MOST),
            ("threads_per_rank", self.threads_per_rank, MOST_THREADS),
            ("steps", self.steps, MOST),
            ("warmup", self.warmup, MOST),
            ("epochs", self.epochs, MOST),
            ("validate", self.validate, MOST),
        ];
        for (name, count, most) in counts {
            if count > most {
                return conflict(name, &format!("at most {most}"), &count.to_string(), "give a smaller number");
            }
        }
        let [d, h, w] = self.width.0;
        // A layer has an input of its own, which its line bounds.
        let input = if self.idle_beside("width").is_some() { [1; 5] } else { [self.batch, d, h, w, self.channels] };
        if let Some(elements) = too_many(input) {
            let remedy = "lower batch, channels or width";
            return conflict("input", "at most 2^46 elements", &elements.to_string(), remedy);
        }
        if u128::from(self.bytes.0) > MOST_ELEMENTS {
            return conflict("bytes", "at most 64 TiB", &self.bytes.print(), "give a smaller payload");
        }
        Ok(())
    }

    /// What holds for single layers and bare communication only.
    fn validate_workload(&self) -> Result<(), PlanError> {
        if self.workload == Workload::Cosmoflow {
            return Ok(());
        }
        self.layer()?;
        if matches!(self.workload, Workload::Layer(_)) && self.axis == Some(Axis::Space) {
            let remedy = "write the larger extents into the layer's line";
            return conflict("axis", "sample for a single layer", "space", remedy);
        }
        if self.workload == Workload::Allreduce && (self.bytes.0 == 0 || !self.bytes.0.is_multiple_of(4)) {
            return conflict("bytes", "a positive multiple of 4", &self.bytes.print(), "give whole f32 values");
        }
        Ok(())
    }

    /// The layer of a single-layer workload, with the batch; `None` for other workloads.
    ///
    /// # Errors
    /// A line that names no layer, or one that does not fit its input or cannot be split over ranks.
    pub fn layer(&self) -> Result<Option<LayerLine>, PlanError> {
        let Workload::Layer(line) = &self.workload else { return Ok(None) };
        if line.split(' ').any(|word| word.starts_with("n=")) {
            return conflict("workload", "a layer without n", line, "set the key batch");
        }
        let layer: LayerLine = match format!("{line} n={}", self.batch).parse() {
            Ok(layer) => layer,
            // The line's n was written as the key batch.
            Err(LineError::Value { key, expected, got, .. }) if key == "n" => {
                return conflict("batch", &expected, &got, "lower it");
            }
            Err(error) => return Err(error.into()),
        };
        if layer.kind == Kind::ConvTranspose {
            return conflict("workload", "a layer of a network", layer.name(), "name another layer");
        }
        if layer.output().contains(&0) {
            return conflict("workload", "windows that fit into the input", line, "enlarge in or pad");
        }
        Ok(Some(layer))
    }

    /// The line with every key: what is stored and hashed.
    pub fn resolved(&self) -> String {
        self.line(|_| true)
    }

    /// A hash of the resolved line (which holds the seed) and of the schema of records: FNV-1a of 64 bits in
    /// hexadecimal, the same on every machine and for every compiler.
    pub fn hash(&self, schema: u32) -> String {
        let text = format!("schema {schema}\n{}", self.resolved());
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }

    /// Each key that means something to the case, and the text of its value.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let used = KEYS.iter().filter(|key| self.idle_beside(key.name).is_none());
        used.map(|key| (key.name.to_string(), (key.get)(self))).collect()
    }

    fn line(&self, wanted: impl Fn(&Key) -> bool) -> String {
        let mut line = quoted(self.workload.print());
        for key in KEYS[1..].iter().filter(|key| wanted(key)) {
            line += &format!(" {}={}", key.name, quoted((key.get)(self)));
        }
        line
    }
}

/// The short line: what is always named and what differs from the default.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |key: &Key| key.always && self.idle_beside(key.name).is_none();
        f.pad(&self.line(|key| named(key) || (key.get)(self) != key.default()))
    }
}

/// The key of that name, or the error that lists all of them.
pub(crate) fn find(name: &str, place: &str) -> Result<&'static Key, PlanError> {
    keys::find(name).ok_or_else(|| PlanError::UnknownKey {
        place: place.into(),
        key: name.into(),
        known: keys::names(),
    })
}

/// Shorthand for [`PlanError::Conflict`].
pub(crate) fn conflict<T>(what: &str, expected: &str, got: &str, remedy: &str) -> Result<T, PlanError> {
    Err(PlanError::Conflict { what: what.into(), expected: expected.into(), got: got.into(), remedy: remedy.into() })
}

/// A value as it stands in a line: in JSON quotes if it would otherwise not be one word.
fn quoted(value: String) -> String {
    if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c == '"') {
        serde_json::Value::String(value).to_string()
    } else {
        value
    }
}

/// The words of a line as (key, value); a word without `=` has no value.
fn words(line: &str) -> Result<Vec<(String, Option<String>)>, PlanError> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let pair = rest[..end].split_once('=');
        // A workload may hold further equals signs; no key holds a colon.
        let Some((name, value)) = pair.filter(|(name, _)| !name.contains(':')) else {
            words.push((rest[..end].into(), None));
            rest = rest[end..].trim_start();
            continue;
        };
        if value.starts_with('"') {
            let text = &rest[name.len() + 1..];
            let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
            let Some(Ok(string)) = strings.next() else {
                return Err(PlanError::OpenQuote { rest: text.into() });
            };
            words.push((name.into(), Some(string)));
            rest = text[strings.byte_offset()..].trim_start();
        } else {
            words.push((name.into(), Some(value.into())));
            rest = rest[end..].trim_start();
        }
    }
    Ok(words)
}
