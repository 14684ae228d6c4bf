//! Collects unreadable rows with their positions and reasons, and limits their share of an import.

use crate::import::rows::files::ImportFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, Result};

/// Handling of an unreadable row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportErrorPolicy {
    /// The row is written to the output `quarantine` with its reason.
    #[default]
    Quarantine,
    /// The row ends the stage.
    Fail,
}

/// Maximum reasons in an error.
const NAMED: usize = 3;

/// A row of the output `quarantine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedRow {
    /// Name of the file, as in [`ImportFile`].
    pub file: String,
    /// Line, or number in a list or a Parquet file, from 1.
    pub line: u64,
    /// Reason why the row cannot be read.
    pub reason: String,
}

/// Counts of the rows rejected so far, and the first reasons.
pub struct Quarantine<'a> {
    files: &'a [ImportFile],
    on_error: ImportErrorPolicy,
    count: u64,
    first: Vec<String>,
}

impl<'a> Quarantine<'a> {
    /// Creates an empty quarantine.
    pub fn new(files: &'a [ImportFile], on_error: ImportErrorPolicy) -> Self {
        Self { files, on_error, count: 0, first: Vec::new() }
    }
    /// Rejects a row and returns its row of the output `quarantine`. Errors: data, if the options permit no unreadable
    /// rows.
    pub fn refuse(&mut self, file: usize, line: usize, error: Error) -> Result<QuarantinedRow> {
        let ImportFile { path, name, .. } = &self.files[file];
        let placed = format!("{} line {line}: {}", path.display(), error.message);
        if self.on_error == ImportErrorPolicy::Fail {
            return Err(error.help.into_iter().fold(Error::data(placed), Error::help));
        }
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(placed);
        }
        Ok(QuarantinedRow { file: name.clone(), line: line as u64, reason: error.message })
    }
    /// Checks the number of rejected rows. Errors: data, if it exceeds the share `max_share` of `rows`.
    pub fn judge(&self, rows: u64, max_share: f64) -> Result<()> {
        if self.count as f64 <= rows as f64 * max_share {
            return Ok(());
        }
        let share = format!("{} of {rows} rows cannot be read, and `max_quarantined` is {max_share}", self.count);
        Err(self
            .with_reasons(Error::data(share))
            .help("repair or remove these rows, or raise `max_quarantined` to import the other rows"))
    }
    /// Adds the reasons of the first rejected rows to the message of an error.
    pub fn with_reasons(&self, mut error: Error) -> Error {
        if !self.first.is_empty() {
            let more = self.count - self.first.len() as u64;
            let more = if more == 0 { String::new() } else { format!("; and {more} more") };
            error.message = format!("{}: {}{more}", error.message, self.first.join("; "));
        }
        error
    }
}
