//! What was loaded: records, their samples as one table, a row for each record.

use std::collections::HashSet;
use std::path::Path;

use polars_core::prelude::DataFrame;
use shardmark_store::Record;

use crate::scaling::{self, Row};
use crate::{Error, Result, aggregate};

/// The records of a folder, ready for tables and figures.
#[derive(Clone, Debug)]
pub struct Frame {
    pub(crate) place: String,
    pub(crate) records: Vec<Record>,
    pub(crate) samples: DataFrame,
    pub(crate) rows: Vec<Row>,
    pub(crate) unread: Vec<String>,
}

/// Loads every record of `folder`. Files that are not whole records of this schema are kept as messages
/// ([`Frame::unread`]), and so are copies of a record.
///
/// # Errors
/// [`Error::Empty`] without any record, [`Error::Unreadable`] if none is whole; [`Error::Store`] if the folder cannot be
/// listed.
pub fn load(folder: &Path) -> Result<Frame> {
    let mut records = Vec::new();
    let mut unread = Vec::new();
    let mut seen = HashSet::new();
    for record in shardmark_store::list(folder)? {
        match record {
            Ok(record) if is_copy(&record, &mut seen) => {
                unread.push(format!(
                    "{}: expected one record of this run, got another; remove the copy",
                    record.case.line
                ));
            }
            Ok(record) => records.push(record),
            Err(error) => unread.push(error.to_string()),
        }
    }
    if records.is_empty() {
        let folder = folder.to_path_buf();
        return Err(match unread.first() {
            None => Error::Empty { folder },
            Some(first) => Error::Unreadable { folder, files: unread.len(), first: first.clone() },
        });
    }
    let mut frame = Frame::from_records(records)?;
    frame.place = folder.display().to_string();
    frame.unread = unread;
    Ok(frame)
}

/// Whether a run is known already, by its case and the moment it began.
fn is_copy(record: &Record, seen: &mut HashSet<(String, String)>) -> bool {
    let started = record.provenance.get("started");
    started.is_some_and(|started| !seen.insert((record.case.hash.clone(), started.clone())))
}

impl Frame {
    /// A frame of records in memory.
    pub fn from_records(mut records: Vec<Record>) -> Result<Frame> {
        records.sort_by_cached_key(scaling::order);
        let samples = aggregate::samples(&records)?;
        let timings = aggregate::timings(&samples, records.len())?;
        let rows = scaling::rows(&records, &timings);
        Ok(Frame { place: "records".to_owned(), records, samples, rows, unread: Vec::new() })
    }

    /// Every sample: columns `case` (index into [`Frame::rows`]), `repeat`, `step`, `warmup`, `rank`, `phase`, `seconds`
    /// (null where nothing was measured).
    pub fn samples(&self) -> &DataFrame {
        &self.samples
    }

    /// A row for each record, problem after problem, by ranks.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Messages about files that could not be read.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }
}
