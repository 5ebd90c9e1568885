//! One-line errors, from our own checks and from the error stack of the HDF5 library.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a file, a name in it, or the data behind the name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused: missing folder, permission, full disk.
    #[error("{}: expected {expected}, got {got}; {remedy}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What should have been possible.
        expected: &'static str,
        /// What the system answered.
        got: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The file is there but is not a complete HDF5 file.
    #[error("{}: expected a complete HDF5 file, got {got}; {remedy}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it looks like instead.
        got: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A group, dataset or attribute is not in the file.
    #[error("{}: expected {what} {name:?}, got none; list the file with `h5ls -r`", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// `group`, `dataset`, `attribute` or `object`.
        what: &'static str,
        /// Path inside the file; for an attribute `object@name`.
        name: String,
    },
    /// A dataset or attribute holds another type than the one asked for.
    #[error("{}: {name:?}: expected {expected}, got {got}; write it anew with the expected type", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// Path inside the file; for an attribute `object@name`.
        name: String,
        /// The type asked for.
        expected: String,
        /// The type found.
        got: String,
    },
    /// A slab or a buffer does not fit the dataset.
    #[error("{}: {name:?}: expected {expected}, got {got}; ask for a part of the stored shape", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Path inside the file.
        name: String,
        /// The shape that would fit.
        expected: String,
        /// The shape found.
        got: String,
    },
    /// The HDF5 library failed for a reason that none of the other cases names.
    #[error("{}: expected to {action}, got {got}; check the file with `h5dump -H`", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: String,
        /// The library's own words.
        got: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An operating-system error on `path`, with the remedy that its kind suggests.
    pub(crate) fn io(path: &Path, expected: &'static str, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "check the path, create the folder",
            io::ErrorKind::PermissionDenied => "change the permissions or use a folder of your own",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => DISK_FULL,
            _ => "check the file system",
        };
        Error::Io { path: path.to_path_buf(), expected, got: strip_os_code(&error.to_string()), remedy }
    }

    /// A failure reported by the library while it tried to `action`.
    pub(crate) fn library(path: &Path, action: impl Into<String>, error: &hdf5::Error) -> Self {
        let text = full_text(error);
        let path = path.to_path_buf();
        if let Some(got) = os_message(&text) {
            let remedy = if got == "File too large" || got == "No space left on device" || got.contains("quota") {
                DISK_FULL
            } else if text.contains("lock") {
                "set HDF5_USE_FILE_LOCKING=FALSE if another program or the file system holds the lock"
            } else {
                "check the file system"
            };
            return Error::Io { path, expected: "to read or write it", got, remedy };
        }
        if text.contains("file signature not found") {
            return Error::Format { path, got: "a file of another kind", remedy: "check that the path is right" };
        }
        if text.contains("truncated file") || text.contains("addr overflow") {
            return Error::Format { path, got: "a truncated one", remedy: "remove it and make it again" };
        }
        Error::Library { path, action: action.into(), got: text }
    }
}

const DISK_FULL: &str = "free some space or raise the limit, then run again";

/// The error stack from the outermost call to the cause, on one line.
fn full_text(error: &hdf5::Error) -> String {
    let text = match error.stack() {
        Some(frames) if !frames.is_empty() => {
            let mut parts: Vec<&str> = frames.iter().map(|frame| frame.desc()).collect();
            parts.dedup();
            parts.join(": ")
        }
        _ => error.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The `strerror` text inside a message such as `errno = 28, error message = 'No space left on device'`.
fn os_message(text: &str) -> Option<String> {
    let tail = text.split("error message = '").nth(1)?;
    tail.split('\'').next().map(str::to_owned)
}

/// `No such file or directory (os error 2)` without the number.
fn strip_os_code(text: &str) -> String {
    text.split(" (os error").next().unwrap_or(text).to_owned()
}
