//! Reads one row of any table as names and values.

use super::reading::{blocking, require_row};
use crate::find::ResolvedOutput;
use crate::table;
use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice};

/// Limits on the size of a cell.
const LIMITS: CellLimits = CellLimits { text: 4_000, items: 100 };

/// Row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRecord {
    /// Number of the row, from 0.
    pub row: u64,
    /// Number of rows of the table.
    pub rows: u64,
    /// Name and value of each column; long values are cut with `…`.
    pub cells: Vec<(String, Value)>,
}

/// Reads a row. Errors: invalid (no such row, not a table), data (a damaged table), those of the store.
pub async fn record(store: &Store, artifact: &str, found: &ResolvedOutput, row: u64) -> Result<TableRecord> {
    let table = table::open(store, artifact, found).await?;
    let artifact = artifact.to_string();
    blocking(move || {
        let rows = require_row(&table, &artifact, row)?;
        let part = ReadSlice { offset: row as usize, limit: Some(1), columns: None };
        let batch = BatchReader::open_part(&table, &part)?.next().transpose()?;
        match batch.filter(|batch| batch.num_rows() > 0).map(|batch| row_as_json(&batch, 0, LIMITS)) {
            Some(Value::Object(cells)) => Ok(TableRecord { row, rows, cells: cells.into_iter().collect() }),
            _ => Err(Error::bug(format!("{artifact} row {row} is missing"))),
        }
    })
    .await
}
