//! Reads rows of an artifact on a thread that may block.

use crate::find::ResolvedOutput;
use crate::table;
use trainyard_core::{ArtifactKind, Error, Result};
use trainyard_store::Store;
use trainyard_tables::{TableSource, row_count};

/// Rows of a batch of chosen rows, few because a row may be large.
pub(super) const BATCH: usize = 16;

/// Opens the trajectories of an artifact. Errors: invalid (another kind of artifact), those of [`table::open`].
pub(super) async fn open(store: &Store, artifact: &str, found: &ResolvedOutput) -> Result<TableSource> {
    let kind = found.output().kind;
    if kind != ArtifactKind::Trajectories {
        return Err(Error::invalid(format!("{artifact} is a {kind}, not trajectories"))
            .help("open a single row of it, or choose an output of `rl` or `evaluate`"));
    }
    table::open(store, artifact, found).await
}

/// Runs work that reads a table.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::bug(format!("reading a table ended early: {e}")))?
}

/// Checks that a table has a row, and returns its number of rows. Errors: invalid (no such row).
pub(super) fn require_row(table: &TableSource, artifact: &str, row: u64) -> Result<u64> {
    let rows = row_count(table)?;
    if row < rows {
        return Ok(rows);
    }
    Err(Error::invalid(format!("{artifact} has no row {row}: it has {rows} rows")).help("rows are counted from 0"))
}

/// Returns the first line of a text that is not blank, cut after `limit` characters.
pub(super) fn first_line(text: &str, limit: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}
