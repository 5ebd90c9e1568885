//! A file that is either there and complete or not there: write beside it, sync, rename, sync the folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, File, Result};

impl File {
    /// Creates `path` by `fill`: the file is written as `<path>.part`, flushed to the disk and renamed, so that no
    /// kill, crash or full disk leaves a broken file under the final name. On an error the part is removed and a file
    /// that was there before stays as it was.
    pub fn create_atomic<T, E: From<Error>>(
        path: impl AsRef<Path>,
        fill: impl FnOnce(&File) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = path.as_ref();
        let part = part_path(path);
        let written = write_part(&part, fill);
        let published = written.and_then(|value| publish(&part, path).map_err(E::from).map(|()| value));
        if published.is_err() {
            // The first error is the one to report; a part that cannot be removed is skipped by every reader.
            let _ = fs::remove_file(&part);
        }
        published
    }
}

fn part_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(".part");
    PathBuf::from(name)
}

fn write_part<T, E: From<Error>>(part: &Path, fill: impl FnOnce(&File) -> Result<T, E>) -> Result<T, E> {
    let file = File::create(part)?;
    let value = fill(&file)?;
    file.close()?;
    Ok(value)
}

fn publish(part: &Path, path: &Path) -> Result<()> {
    sync(part)?;
    fs::rename(part, path).map_err(|error| Error::io(path, "to rename the finished file", &error))?;
    // The rename itself lives in the folder; without this a power cut may lose it.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    sync(folder)
}

fn sync(path: &Path) -> Result<()> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(|error| Error::io(path, "to reach the disk", &error))
}
