//! Errors of making and reading data, one line each.

use std::path::{Path, PathBuf};

/// What can go wrong with a data folder or a file in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file: missing, truncated, not HDF5, full disk, a name that is not there.
    #[error(transparent)]
    File(#[from] shardmark_h5::Error),
    /// The operating system refused to list, read or write something else than an HDF5 file.
    #[error("{}: expected {expected}, got {got}; check the path and its permissions", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What should have been possible.
        expected: &'static str,
        /// What the system answered.
        got: String,
    },
    /// A value that no data can be made with.
    #[error("{what}: expected {expected}, got {got}; change the value")]
    Spec {
        /// The key.
        what: &'static str,
        /// What would do.
        expected: &'static str,
        /// The value.
        got: String,
    },
    /// The folder holds other data than those asked for.
    #[error("{}: expected {expected} (its dataset.toml), got {got}; choose another folder or remove this one", dir.display())]
    OtherSpec {
        /// The folder.
        dir: PathBuf,
        /// Keys and values of the folder, where they differ.
        expected: String,
        /// Keys and values asked for.
        got: String,
    },
    /// `dataset.toml` is not what this program writes.
    #[error("{}: expected the index of a data folder, got {got}; remove the folder and make it again", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        got: String,
    },
    /// No samples.
    #[error("{}: expected .hdf5 or .h5 files, got none; make them with `shardmark data make`", dir.display())]
    Empty {
        /// The folder.
        dir: PathBuf,
    },
    /// Files that the index promises are not there yet.
    #[error("{}: expected {expected} files, got {got}; run `shardmark data make` again to add the others", dir.display())]
    Incomplete {
        /// The folder.
        dir: PathBuf,
        /// Files of the index.
        expected: usize,
        /// Files found.
        got: usize,
    },
    /// A file whose content does not fit.
    #[error("{}: {what}: expected {expected}, got {got}; replace or remove the file", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Name in the file.
        what: &'static str,
        /// What would fit.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A sample number beyond the end.
    #[error("sample: expected less than {len}, got {sample}; use the number of samples of the split")]
    Sample {
        /// Samples there are.
        len: usize,
        /// The sample asked for.
        sample: usize,
    },
    /// Cubes that do not tile the volume.
    #[error("cube: expected a divisor of the volume's extents {extents:?}, got {edge}; choose a divisor")]
    Cube {
        /// D, H, W of a file.
        extents: [usize; 3],
        /// The edge asked for.
        edge: usize,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(path: &Path, expected: &'static str, error: &std::io::Error) -> Self {
        let got = error.to_string();
        let got = got.split(" (os error").next().unwrap_or(&got).to_owned();
        Error::Io { path: path.to_path_buf(), expected, got }
    }
}
