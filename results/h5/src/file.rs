//! Opening, closing and listing files; creating groups.

use std::fs;
use std::path::{Path, PathBuf};

use hdf5::LocationType;

use crate::{Error, Result};

/// An open HDF5 file. Names of objects are paths from the root; a leading `/` makes no difference.
#[derive(Debug)]
pub struct File {
    pub(crate) inner: hdf5::File,
    pub(crate) path: PathBuf,
}

/// Whether a name is a group or a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Holds other objects.
    Group,
    /// Holds an array.
    Dataset,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path from the root, without the leading `/`.
    pub name: String,
    /// Group or dataset.
    pub kind: Kind,
}

impl File {
    /// Creates `path`, replacing a file that is there.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder is missing or not writable.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // The library says "unable to create file" for most reasons; the system call says which one.
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| Error::io(path, "to create the file", &error))?;
        let inner = builder().create(path).map_err(|error| Error::library(path, "create the file", &error))?;
        Ok(File { inner, path: path.to_path_buf() })
    }

    /// Opens `path` for reading. Several handles, also of several processes, may be open at once.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Format`] if it is no HDF5 file or a truncated one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        check_readable(path)?;
        let inner = builder().open(path).map_err(|error| Error::library(path, "open the file", &error))?;
        Ok(File { inner, path: path.to_path_buf() })
    }

    /// Writes everything to the operating system and closes the file. Dropping a file closes it too, but cannot
    /// report an error.
    pub fn close(self) -> Result<()> {
        let File { inner, path } = self;
        let flushed = inner.flush();
        let closed = inner.close();
        flushed.and(closed).map_err(|error| Error::library(&path, "write and close the file", &error))
    }

    /// The path this file was opened or created with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the group `name` and the groups above it.
    pub fn create_group(&self, name: &str) -> Result<()> {
        self.inner.create_group(name).map(drop).map_err(|error| self.failed(format!("create group {name:?}"), &error))
    }

    /// True if `name` is a group or a dataset of this file.
    pub fn exists(&self, name: &str) -> bool {
        let name = name.trim_matches('/');
        name.is_empty() || self.inner.link_exists(name)
    }

    /// Group or dataset.
    ///
    /// # Errors
    /// [`Error::Missing`] if `name` is neither.
    pub fn kind(&self, name: &str) -> Result<Kind> {
        let name = name.trim_matches('/');
        if name.is_empty() {
            return Ok(Kind::Group);
        }
        match self.inner.loc_type_by_name(name) {
            Ok(LocationType::Group) => Ok(Kind::Group),
            Ok(LocationType::Dataset) => Ok(Kind::Dataset),
            _ => Err(self.missing("object", name)),
        }
    }

    /// The members of `group` (`"/"` for the root), by name.
    pub fn list(&self, group: &str) -> Result<Vec<Entry>> {
        let prefix = group.trim_matches('/');
        if self.kind(prefix)? != Kind::Group {
            return Err(self.missing("group", prefix));
        }
        let handle = if prefix.is_empty() { self.inner.group("/") } else { self.inner.group(prefix) };
        let names = handle
            .and_then(|group| group.member_names())
            .map_err(|error| self.failed(format!("list group {group:?}"), &error))?;
        names
            .into_iter()
            .map(|name| if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
            .map(|name| self.kind(&name).map(|kind| Entry { name, kind }))
            .collect()
    }

    /// Every group and dataset of the file, parents before children, by name.
    pub fn list_all(&self) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        let mut open = vec![Entry { name: String::new(), kind: Kind::Group }];
        while let Some(entry) = open.pop() {
            if entry.kind == Kind::Group {
                let mut members = self.list(&entry.name)?;
                members.reverse();
                open.extend(members);
            }
            if !entry.name.is_empty() {
                found.push(entry);
            }
        }
        Ok(found)
    }

    pub(crate) fn failed(&self, action: impl Into<String>, error: &hdf5::Error) -> Error {
        Error::library(&self.path, action, error)
    }

    pub(crate) fn missing(&self, what: &'static str, name: &str) -> Error {
        Error::Missing { path: self.path.clone(), what, name: name.to_owned() }
    }
}

/// Without the library's file locks: a file has one writer and is published by a rename, so they protect nothing here. They
/// do harm where the file system has none (many parallel ones), and a child process that was started while a file was open
/// inherits its lock and holds it for as long as it lives.
fn builder() -> hdf5::FileBuilder {
    let mut builder = hdf5::FileBuilder::new();
    #[cfg(can_switch_locks)]
    builder.with_fapl(|fapl| fapl.file_locking(false));
    builder
}

fn check_readable(path: &Path) -> Result<()> {
    let expected = "a readable file";
    let file = fs::File::open(path).map_err(|error| Error::io(path, expected, &error))?;
    let meta = file.metadata().map_err(|error| Error::io(path, expected, &error))?;
    if meta.is_dir() {
        let remedy = "name a file in it";
        return Err(Error::Io { path: path.to_path_buf(), expected, got: "a folder".to_owned(), remedy });
    }
    if meta.len() == 0 {
        let remedy = "remove it and make it again";
        return Err(Error::Format { path: path.to_path_buf(), got: "an empty one", remedy });
    }
    Ok(())
}
