//! A suite: a TOML file of keys whose lists multiply out to cases.
//!
//! ```toml
//! mode = "strong"            # required
//! width = 64
//! ranks = [1, 2, 4]
//! grid = ["auto:d", "auto:n"]
//! ```
//!
//! The keys are those of a case. Precedence: flag, environment (`SHARDMARK_WIDTH=32`), file, default.
//! [`Suite::resolved`] is the suite with every key, whatever gave its values, and reads back as the same suite.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::case::{self, Case};
use crate::error::PlanError;
use crate::expand::GridRule;
use crate::keys::{KEYS, Key};

/// A suite with its overrides.
#[derive(Debug, Clone)]
pub struct Suite {
    name: String,
    entries: Vec<Entry>,
}

/// The values of one key.
#[derive(Debug, Clone)]
struct Entry {
    key: &'static Key,
    values: Vec<String>,
    /// Of the environment, which speaks to every suite.
    environment: bool,
}

impl Suite {
    /// Reads a suite file; see [`name`] for its name.
    ///
    /// # Errors
    /// A file that cannot be read, and what [`Suite::parse`] refuses.
    pub fn read(path: &Path) -> Result<Suite, PlanError> {
        let text = std::fs::read_to_string(path).map_err(|source| PlanError::File {
            path: path.into(),
            what: "a suite file",
            source,
        })?;
        Suite::parse(&text, &name(path), &path.display().to_string())
    }

    /// Reads the text of a suite; `file` stands in errors before the line number.
    ///
    /// # Errors
    /// Text that is not TOML, unknown keys, values without their key's form, no `mode`.
    pub fn parse(text: &str, name: &str, file: &str) -> Result<Suite, PlanError> {
        let place = |offset: usize| format!("{file}:{}", text[..offset].matches('\n').count() + 1);
        let table = DeTable::parse(text).map_err(|error| PlanError::NotToml {
            place: place(error.span().map_or(0, |span| span.start.min(text.len()))),
            message: error.message().replace('\n', ", "),
        })?;
        let mut suite = Suite { name: name.into(), entries: Vec::new() };
        for (name, value) in table.get_ref() {
            let place = place(name.span().start);
            let key = case::find(name.get_ref(), &place)?;
            suite.put(key, texts(key, value.get_ref(), &place)?, &place)?;
        }
        if suite.values("mode").is_none() {
            return case::conflict(file, "mode = \"strong\" or \"weak\"", "no mode", "add the line");
        }
        Ok(suite)
    }

    /// The suite's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Overrides one key by the text of a flag or variable: one value, several with commas, or a TOML list.
    ///
    /// # Errors
    /// An unknown key, a value without the key's form.
    pub fn set(&mut self, name: &str, text: &str, place: &str) -> Result<(), PlanError> {
        let key = case::find(name, place)?;
        let values = if text.starts_with('[') {
            let not_toml = |error: toml::de::Error| PlanError::NotToml {
                place: format!("{place} {name}"),
                message: error.message().into(),
            };
            let value = DeValue::parse(text).map_err(not_toml)?;
            texts(key, value.get_ref(), place)?
        } else {
            text.split(',').map(|value| value.trim().to_string()).collect()
        };
        self.put(key, values, place)
    }

    /// Overrides one key by `key=value`, the argument of `-S`.
    ///
    /// # Errors
    /// Text without `=`, and what [`Suite::set`] refuses.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), PlanError> {
        let (name, value) = split_pair(pair)?;
        self.set(name, value, "-S")
    }

    /// Overrides every key that the environment names as `SHARDMARK_<KEY>`; `variable` reads it.
    ///
    /// # Errors
    /// A value without the key's form.
    pub fn set_environment(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), PlanError> {
        for key in KEYS {
            let name = format!("SHARDMARK_{}", key.name.to_uppercase());
            if let Some(value) = variable(&name) {
                self.set(key.name, &value, &name)?;
                self.entries.iter_mut().filter(|entry| entry.key.name == key.name).for_each(|e| e.environment = true);
            }
        }
        Ok(())
    }

    /// The suite as text with every key: stored with the results, and read back as the same suite.
    pub fn resolved(&self) -> String {
        let mut text = String::new();
        // Wrong values are told by `cases`.
        let bases = self.bases().unwrap_or_default();
        for key in KEYS {
            // Explicit grids give their own ranks.
            if key.name == "ranks" && self.values("ranks").is_none() {
                continue;
            }
            let idle = !bases.is_empty() && bases.iter().all(|case| case.idle_beside(key.name).is_some());
            let given = self.values(key.name).filter(|_| !idle);
            let values = given.map_or_else(|| vec![key.default()], <[String]>::to_vec);
            let values: Vec<String> = values.iter().map(|value| toml_text(value)).collect();
            text += &match &values[..] {
                [value] => format!("{} = {value}\n", key.name),
                values => format!("{} = [{}]\n", key.name, values.join(", ")),
            };
        }
        text
    }

    /// The texts given for a key.
    pub(crate) fn values(&self, name: &str) -> Option<&[String]> {
        self.entries.iter().find(|entry| entry.key.name == name).map(|entry| &entry.values[..])
    }

    /// Refuses a key of the file or of a flag that changes nothing about any of the cases.
    pub(crate) fn refuse_idle_keys(&self, cases: &[Case]) -> Result<(), PlanError> {
        for Entry { key, values, .. } in self.entries.iter().filter(|entry| !entry.environment) {
            let Some(first) = cases.first().filter(|_| cases.iter().all(|case| case.idle_beside(key.name).is_some()))
            else {
                continue;
            };
            for value in values {
                // Through a case and back: 32x32x32 and 32 are the same width.
                let mut read = Case::default();
                (key.set)(&mut read, value);
                first.refuse(key, &(key.get)(&read))?;
            }
        }
        Ok(())
    }

    /// Stores the values of a key after reading each once.
    fn put(&mut self, key: &'static Key, values: Vec<String>, place: &str) -> Result<(), PlanError> {
        let bad = |form: String, value: &str| PlanError::BadValue {
            place: place.into(),
            key: key.name,
            form,
            value: value.into(),
        };
        if values.is_empty() {
            return Err(bad(key.form.into(), "[]"));
        }
        for value in &values {
            if key.name == "grid" {
                GridRule::read(value).ok_or_else(|| bad(GridRule::FORM.into(), value))?;
            } else if !(key.set)(&mut Case::default(), value) {
                return Err(bad(key.form.into(), value));
            }
        }
        self.entries.retain(|entry| entry.key.name != key.name);
        self.entries.push(Entry { key, values, environment: false });
        Ok(())
    }
}

/// Folders of suites beside the top one.
pub const FOLDERS: [&str; 4] = ["strong", "weak", "train", "micro"];

/// The name of the suite in a file: the file's, after the folder's and a dash if it lies in one of [`FOLDERS`].
pub fn name(path: &Path) -> String {
    let text = |name: Option<&std::ffi::OsStr>| name.map(|name| name.to_string_lossy().into_owned());
    let stem = text(path.file_stem()).unwrap_or_default();
    match text(path.parent().and_then(Path::file_name)) {
        Some(folder) if FOLDERS.contains(&folder.as_str()) => format!("{folder}-{stem}"),
        _ => stem,
    }
}

/// `key=value` cut in two.
pub(crate) fn split_pair(pair: &str) -> Result<(&str, &str), PlanError> {
    pair.split_once('=').ok_or_else(|| PlanError::NotAPair { word: pair.into() })
}

/// The texts of a TOML value or list of values.
fn texts(key: &'static Key, value: &DeValue, place: &str) -> Result<Vec<String>, PlanError> {
    match value {
        DeValue::Array(list) => list.iter().map(|value| scalar(key, value.get_ref(), place)).collect(),
        single => Ok(vec![scalar(key, single, place)?]),
    }
}

/// The text of a TOML value that is no list.
fn scalar(key: &'static Key, value: &DeValue, place: &str) -> Result<String, PlanError> {
    let got = match value {
        DeValue::String(text) => return Ok(text.to_string()),
        DeValue::Integer(number) => return Ok(number.to_string()),
        DeValue::Float(number) => return Ok(number.to_string()),
        DeValue::Array(_) => "a list in a list".into(),
        other => format!("a {}", other.type_str()),
    };
    Err(PlanError::BadValue { place: place.into(), key: key.name, form: key.form.into(), value: got })
}

/// A value as TOML: numbers as they are, text in quotes.
fn toml_text(value: &str) -> String {
    if value.parse::<i64>().is_ok() || (value.contains('.') && value.parse::<f64>().is_ok()) {
        value.into()
    } else {
        toml::Value::String(value.into()).to_string()
    }
}
