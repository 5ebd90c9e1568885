//! The words of a problem line after its first: `key=value`, and flags, which are keys alone.

use std::str::FromStr;

/// Why a line is not a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The first word names no layer.
    #[error("layer of `{line}`: expected one of {expected}, got {got}; correct the first word")]
    Layer {
        /// The line.
        line: String,
        /// The words that are known.
        expected: String,
        /// Its first word.
        got: String,
    },
    /// A key is missing, unknown, repeated or has a value that does not parse.
    #[error("{key} of `{line}`: expected {expected}, got {got}; correct the line")]
    Value {
        /// The line.
        line: String,
        /// The key.
        key: String,
        /// What it takes.
        expected: String,
        /// What was found.
        got: String,
    },
}

/// The values of a line by key, with errors that name both.
pub struct Fields<'a> {
    line: &'a str,
    keys: &'static [&'static str],
    values: Vec<Option<&'a str>>,
}

/// Digits of a number: products of a few of them are checked in 128 bits.
const DIGITS: usize = 9;

impl<'a> Fields<'a> {
    /// Splits a line whose words after the first have the given keys, each at most once.
    ///
    /// # Errors
    /// A key that is unknown or repeated.
    pub fn split(line: &'a str, keys: &'static [&'static str]) -> Result<Self, LineError> {
        let mut fields = Fields { line, keys, values: vec![None; keys.len()] };
        for word in line.split_whitespace().skip(1) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let slot = keys.iter().position(|&k| k == key).filter(|&i| fields.values[i].is_none());
            let Some(slot) = slot else {
                return Err(fields.error(key, &format!("each of {} once", keys.join(" ")), word));
            };
            fields.values[slot] = Some(value);
        }
        Ok(fields)
    }

    /// The error of a key that expected something else.
    pub fn error(&self, key: &str, expected: &str, got: &str) -> LineError {
        LineError::Value { line: self.line.into(), key: key.into(), expected: expected.into(), got: got.into() }
    }

    /// The text of a key; `nothing` if it is missing.
    pub fn text(&self, key: &str) -> &'a str {
        self.find(key).unwrap_or("nothing")
    }

    /// A number of at least 1.
    ///
    /// # Errors
    /// The key is missing or its value is no such number.
    pub fn count(&self, key: &str) -> Result<usize, LineError> {
        self.number(key, self.text(key), 1)
    }

    /// Whether a flag is there.
    ///
    /// # Errors
    /// The flag has a value.
    pub fn flag(&self, key: &str) -> Result<bool, LineError> {
        match self.find(key) {
            None => Ok(false),
            Some("") => Ok(true),
            Some(value) => Err(self.error(key, "the word alone", value)),
        }
    }

    /// A part of a key's value as a number of at least `least`.
    ///
    /// # Errors
    /// It is no such number.
    pub fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        key: &str,
        text: &str,
        least: T,
    ) -> Result<T, LineError> {
        let number = text.parse().ok().filter(|n: &T| *n >= least && text.len() <= DIGITS);
        number.ok_or_else(|| {
            self.error(key, &format!("a whole number of at least {least} and {DIGITS} digits at most"), text)
        })
    }

    /// The values of a key that are joined by `x`.
    pub fn list(&self, key: &str) -> Vec<&'a str> {
        self.text(key).split('x').collect()
    }

    fn find(&self, key: &str) -> Option<&'a str> {
        self.keys.iter().position(|&k| k == key).and_then(|i| self.values[i])
    }
}
