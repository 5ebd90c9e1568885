//! The record of one case: what ran, how it ended, every sample, and where it comes from.
//!
//! One HDF5 file a case, `<results>/<case hash>.h5`, written by one process to a temporary name and renamed: a kill at any
//! moment leaves either no file or a whole one. The tree is documented in `SCHEMA.md`, which a test compares with a file.
//! Measured, predicted and simulated cases are the same record with another [`Source`].

mod error;
#[cfg(feature = "example")]
mod example;
mod read;
mod record;
#[cfg(test)]
mod tests;
mod words;
mod write;

use std::path::Path;

pub use error::{Error, Result};
pub use record::{Case, Check, Layer, Layers, Record, Samples, Traffic, Validation};
pub use words::{Detail, Mark, Outcome, Phase, Source};

/// Version of the tree in `SCHEMA.md`. A record of another version is refused, never guessed at.
pub const SCHEMA: u32 = 1;

/// Reads every record of a folder, by file name. Files that are being written (`*.part`) and other files are skipped; a
/// file that cannot be read is an error in its place and does not hide the others.
///
/// # Errors
/// The folder itself cannot be listed.
pub fn list(folder: &Path) -> Result<Vec<Result<Record>>> {
    let unreadable = |error: std::io::Error| Error::folder(folder, &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "h5") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths.iter().map(|path| Record::read(path)).collect())
}
