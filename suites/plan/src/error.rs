//! What can be wrong with the text of a case or a suite.

use std::path::PathBuf;

use shardmark_problem::LineError;

/// An error in a case line, a suite file or an override; its text says what was expected, what was found and what to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A word of a case line that is not `key=value`.
    #[error("case line: expected key=value, got {word:?}; write for example width=32")]
    NotAPair {
        /// The word found.
        word: String,
    },
    /// A value in quotes that does not end.
    #[error("case line: expected a closing quote, got {rest:?}; write key=\"value with spaces\"")]
    OpenQuote {
        /// The text from the opening quote on.
        rest: String,
    },
    /// A key that is not in the table of keys.
    #[error("{place}: expected one of the keys {}, got {key:?}; correct or remove it", known.join(" "))]
    UnknownKey {
        /// Where it stands: `case line`, `suites/smoke.toml:3`, `-S`.
        place: String,
        /// The key found.
        key: String,
        /// All keys that are allowed there.
        known: Vec<&'static str>,
    },
    /// A key given twice in one line.
    #[error("case line: expected {key} once, got it twice; remove one")]
    Twice {
        /// The key.
        key: String,
    },
    /// A value that the key cannot take.
    #[error("{place}: {key}: expected {form}, got {value:?}; see `shardmark list --keys`")]
    BadValue {
        /// Where it stands.
        place: String,
        /// The key.
        key: &'static str,
        /// What the key takes.
        form: String,
        /// The value found.
        value: String,
    },
    /// Values that are right one by one and wrong together.
    #[error("{what}: expected {expected}, got {got}; {remedy}")]
    Conflict {
        /// What is wrong.
        what: String,
        /// What would be right.
        expected: String,
        /// What was found.
        got: String,
        /// What to do.
        remedy: String,
    },
    /// A single layer whose line is wrong.
    #[error(transparent)]
    Layer(Box<LineError>),
    /// A suite file that is not TOML.
    #[error("{place}: expected TOML, got: {message}; correct the line")]
    NotToml {
        /// File and line.
        place: String,
        /// The TOML parser's message.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: expected {what}, got: {source}; check the path", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the file should be.
        what: &'static str,
        /// The system's message.
        source: std::io::Error,
    },
}

impl From<LineError> for PlanError {
    fn from(error: LineError) -> PlanError {
        PlanError::Layer(Box::new(error))
    }
}
