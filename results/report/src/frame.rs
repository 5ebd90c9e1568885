//! What was loaded: records, their samples as one table, a row for each record.

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
/// ([`Frame::unread`]).
///
/// # Errors
/// [`Error::Empty`] without any record; [`Error::Store`] if the folder cannot be listed.
pub fn load(folder: &Path) -> Result<Frame> {
    let mut records = Vec::new();
    let mut unread = Vec::new();
    for record in shardmark_store::list(folder)? {
        match record {
            Ok(record) => records.push(record),
            Err(error) => unread.push(error.to_string()),
        }
    }
    if records.is_empty() && unread.is_empty() {
        return Err(Error::Empty { folder: folder.to_path_buf() });
    }
    let mut frame = Frame::from_records(records)?;
    frame.place = folder.display().to_string();
    frame.unread = unread;
    Ok(frame)
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
