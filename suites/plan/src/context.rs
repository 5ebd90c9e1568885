//! What the supervisor knows about a case and the rank program stores in its record: a JSON file beside the records,
//! written before each case.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::PlanError;

/// Where a case belongs and how it was started (`shardmark-rank case --context FILE`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The suite's name.
    pub suite: String,
    /// The resolved text of the suite.
    pub resolved: String,
    /// The template of the MPI launcher, for resuming with the same.
    pub launcher: String,
    /// Whether there are more ranks than hardware threads; the ranks cannot tell, since a launcher may have bound them.
    pub oversubscribed: bool,
    /// Commit, compiler, machine, launcher ...: see [`crate::provenance`].
    pub provenance: BTreeMap<String, String>,
}

impl Context {
    /// Reads the file.
    ///
    /// # Errors
    /// A file that cannot be read or is not a context.
    pub fn read(path: &Path) -> Result<Context, PlanError> {
        let file = |source| PlanError::File { path: path.into(), what: "a context file", source };
        let text = std::fs::read_to_string(path).map_err(file)?;
        serde_json::from_str(&text).map_err(|error| file(error.into()))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        let file = |source| PlanError::File { path: path.into(), what: "to write a context file", source };
        let text = serde_json::to_string_pretty(self).map_err(|error| file(error.into()))?;
        std::fs::write(path, text + "\n").map_err(file)
    }
}
