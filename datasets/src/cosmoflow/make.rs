//! Simulating a whole set into a folder, again and again from where it stopped.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::spec::{DatasetSpec, differences, read_index, write_index};
use super::{Split, file};
use crate::universe::simulate;
use crate::{Error, Result};

/// Makes the universes of `spec` that `dir` does not have yet and returns how many that were.
///
/// The universes are shared among `threads` workers; what they hold does not depend on it. `progress(done, total)` is called
/// at the start and after each universe, in this thread, which writes the files. One call at a time may work on a folder.
///
/// # Errors
/// [`Error::Spec`] for a set that cannot be made, [`Error::OtherSpec`] if `dir` has another one, and what the disk answers.
/// Files that are complete by then stay.
pub fn make(spec: &DatasetSpec, dir: &Path, threads: usize, progress: &mut dyn FnMut(usize, usize)) -> Result<usize> {
    spec.check()?;
    claim(spec, dir)?;
    let missing: Vec<(usize, PathBuf)> =
        Split::ALL.iter().flat_map(|&split| spec.files(dir, split)).filter(|(_, path)| !path.exists()).collect();
    let folders: BTreeSet<&Path> = missing.iter().filter_map(|(_, path)| path.parent()).collect();
    for folder in folders {
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, "to create the folder", &error))?;
    }
    let present = spec.total() - missing.len();
    progress(present, spec.total());
    let mut done = present;
    simulate_all(spec, &missing, threads, |(index, path), channels| {
        file::write(path, spec, *index, &channels)?;
        done += 1;
        progress(done, spec.total());
        Ok(())
    })?;
    Ok(missing.len())
}

/// Writes the index of a new folder; refuses one of another set.
fn claim(spec: &DatasetSpec, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| Error::io(dir, "to create the folder", &error))?;
    match read_index(dir)? {
        None => write_index(dir, spec),
        Some(found) if found == *spec => Ok(()),
        Some(found) => {
            let (expected, got) = differences(&found, spec);
            Err(Error::OtherSpec { dir: dir.to_path_buf(), expected, got })
        }
    }
}

/// Simulates each universe on one of the workers and hands it to `finish` in this thread, as they come.
fn simulate_all(
    spec: &DatasetSpec,
    universes: &[(usize, PathBuf)],
    threads: usize,
    mut finish: impl FnMut(&(usize, PathBuf), Vec<f32>) -> Result<()>,
) -> Result<()> {
    let workers = threads.clamp(1, universes.len().max(1));
    let threads_each = (threads / workers).max(1);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // A full channel stops the workers, so at most one finished universe waits.
        let (send, receive) = mpsc::sync_channel(1);
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some(universe) = universes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let channels = simulate(&spec.universe(universe.0), threads_each);
                    if send.send((universe, channels)).is_err() {
                        // The writer gave up.
                        return;
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().try_for_each(|(universe, channels)| finish(universe, channels))
    })
}
