//! Errors of reading and writing records, one line each.

use std::path::{Path, PathBuf};

/// What can go wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file: missing, truncated, not HDF5, full disk, a name that is not there.
    #[error(transparent)]
    File(#[from] shardmark_h5::Error),
    /// An HDF5 file of another program.
    #[error(
        "{}: expected a shardmark record, got an HDF5 file of another kind; remove it from the results folder",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A record of another version of the schema.
    #[error(
        "{}: expected record schema {expected}, got {got}; read it with the shardmark that wrote it, or run the case again",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of this program.
        expected: u32,
        /// The version of the file.
        got: i64,
    },
    /// A part of the record contradicts another.
    #[error("{}: {what}: expected {expected}, got {got}; run the case again", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Name in the tree.
        what: &'static str,
        /// What would fit.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The results folder cannot be listed.
    #[error("{}: expected a readable results folder, got: {got}; check the path", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        got: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn folder(path: &Path, error: &std::io::Error) -> Self {
        Error::Folder { path: path.to_path_buf(), got: error.to_string() }
    }
}
