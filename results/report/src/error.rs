//! Errors of tables and figures, one line each.

use std::path::PathBuf;

/// What can go wrong between records and a page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The results folder cannot be listed.
    #[error(transparent)]
    Store(#[from] shardmark_store::Error),
    /// A folder without records.
    #[error("{}: expected records (*.h5), got none; run a suite with this results folder first", folder.display())]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder without one whole record.
    #[error("{}: expected records, got {files} files that are none, such as {first}", folder.display())]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// Number of files.
        files: usize,
        /// What is wrong with the first.
        first: String,
    },
    /// Records, but none that this figure can draw.
    #[error("{}: expected {expected}, got no record with it among {records}; {remedy}", place)]
    NothingToDraw {
        /// The folder that was loaded.
        place: String,
        /// What the figure needs.
        expected: &'static str,
        /// Number of records looked at.
        records: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// A name that is no kind of figure or format of table.
    #[error("{what}: expected {expected}, got {got:?}; choose one of them")]
    Word {
        /// `figure`, `table` or `figure file`.
        what: &'static str,
        /// The words there are.
        expected: &'static str,
        /// The word given.
        got: String,
    },
    /// The figure cannot be written.
    #[error("{}: expected to write a figure, got: {got}; check the folder", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's or the encoder's words.
        got: String,
    },
    /// A fault of the table engine or the drawing library, not of the records.
    #[error("report: expected {step} to succeed, got: {got}; this is a bug, please report it with the records")]
    Internal {
        /// What was computed.
        step: &'static str,
        /// The library's words.
        got: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<polars_core::error::PolarsError> for Error {
    fn from(error: polars_core::error::PolarsError) -> Self {
        Error::Internal { step: "the aggregation", got: error.to_string().replace('\n', " ") }
    }
}
