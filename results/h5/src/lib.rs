//! Files in HDF5: the only crate that links the HDF5 library.
//!
//! A [`File`] holds groups, datasets of [`Elem`] types with any rank, strings and attributes, all named by their path
//! inside the file (`counts/bytes`). Parts of a dataset are read and written as slabs, one range for each axis.
//! [`File::create_atomic`] writes a file that is either there and complete or not there.
//!
//! - Every function may be called from several threads: the binding serialises calls into the library by one global
//!   lock (Debian's HDF5 is not built thread-safe). Threads that read therefore take turns; processes do not.
//! - Files are serial HDF5: each rank opens its own handle and reads its own slab.
//! - The library's own error print is silenced; every [`Error`] is one line.

mod atomic;
mod attr;
mod dataset;
mod error;
mod file;
mod strings;
#[cfg(test)]
mod tests;

pub use attr::Attr;
pub use dataset::{Dtype, Elem, Layout};
pub use error::{Error, Result};
pub use file::{Entry, File, Kind};

/// Version of the HDF5 library that runs, such as `1.10.8`.
pub fn library_version() -> String {
    let (major, minor, release) = hdf5::library_version();
    format!("{major}.{minor}.{release}")
}
