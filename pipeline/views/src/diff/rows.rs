//! Compares the rows of two tables.
//!
//! A first pass over both tables keeps two hashes of 128 bits for each row. If rows with one key differ, a second pass
//! reads one column after the other and keeps one hash for each of these rows. Only the rows that are shown are read
//! again.

use super::excerpt::{beginning, differing_parts};
use super::join::{JoinedRows, join_rows};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use trainyard_core::Result;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, cell_digests, read_schema, row_digests};

/// Columns with the key of a row, the preferred one first.
const KEYS: [&str; 2] = ["id", "rollout"];

/// Rows that differ, over the columns that both tables have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct RowsDiff {
    /// Column by which rows are matched; null if they are matched by position.
    pub key: Option<String>,
    /// Number of rows that only A has.
    pub only_a: usize,
    /// Number of rows that only B has.
    pub only_b: usize,
    /// Number of rows in both with the same cells.
    pub equal: usize,
    /// Number of rows in both with other cells.
    pub changed: usize,
    /// Number of rows of A whose key an earlier row has; rows with one key are matched in their order.
    pub repeated_a: usize,
    /// Number of rows of B whose key an earlier row has.
    pub repeated_b: usize,
    /// Columns in which changed rows differ, those of most rows first.
    pub columns: Vec<ChangedColumn>,
    /// First changed rows, in the order of A.
    pub first_changed: Vec<ChangedRow>,
    /// First rows that only A has.
    pub first_only_a: Vec<RowName>,
    /// First rows that only B has.
    pub first_only_b: Vec<RowName>,
}

/// Column in which rows differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedColumn {
    /// Column name.
    pub column: String,
    /// Number of changed rows with another cell.
    pub rows: usize,
}

/// Row of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowName {
    /// Number of the row, from 0.
    pub row: usize,
    /// Beginning of the row's key; null if rows are matched by position.
    pub key: Option<String>,
}

/// Row with other cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedRow {
    /// Beginning of the key; null if rows are matched by position.
    pub key: Option<String>,
    /// Number of the row in A, from 0.
    pub row_a: usize,
    /// Number of the row in B.
    pub row_b: usize,
    /// Cells that differ, in the order of the columns' names.
    pub cells: Vec<ChangedCell>,
}

/// Cell that differs. A long text begins shortly before the first difference; omissions are marked by `…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedCell {
    /// Column name.
    pub column: String,
    /// Text of A's cell; that of a value other than a text is JSON.
    pub a: String,
    /// Text of B's cell.
    pub b: String,
}

/// Table with its name in errors.
pub struct NamedTable {
    /// Artifact.
    pub name: String,
    /// Place of its rows.
    pub source: TableSource,
}

/// Compares the rows of two tables, and shows at most `shown` rows of each kind of difference. Blocks the thread.
///
/// Errors: those of reading the tables, with the name of the table.
pub fn compare_rows(a: &NamedTable, b: &NamedTable, shown: usize) -> Result<RowsDiff> {
    let columns: Vec<String> = a.columns()?.intersection(&b.columns()?).cloned().collect();
    let key = KEYS.into_iter().find(|key| columns.iter().any(|column| column == key));
    let joined = join_rows(&a.digests(key, &columns)?, &b.digests(key, &columns)?);
    let (rows_a, rows_b): (Vec<usize>, Vec<usize>) = joined.changed.iter().copied().unzip();
    let mut differing = Vec::new();
    for column in columns.iter().filter(|column| !rows_a.is_empty() && Some(column.as_str()) != key) {
        let (cells_a, cells_b) = (a.cells(column, &rows_a)?, b.cells(column, &rows_b)?);
        let changed: Vec<bool> = cells_a.iter().zip(&cells_b).map(|(a, b)| a != b).collect();
        let rows = changed.iter().filter(|is_changed| **is_changed).count();
        if rows > 0 {
            let shown = changed.into_iter().take(shown).collect();
            differing.push(DifferingColumn { column: ChangedColumn { column: column.clone(), rows }, shown });
        }
    }
    let first_changed = first_changed(a, b, key, &joined, &differing, shown)?;
    let mut columns: Vec<ChangedColumn> = differing.into_iter().map(|found| found.column).collect();
    columns.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| a.column.cmp(&b.column)));
    Ok(RowsDiff {
        key: key.map(str::to_string),
        only_a: joined.only_a.len(),
        only_b: joined.only_b.len(),
        equal: joined.equal,
        changed: joined.changed.len(),
        repeated_a: joined.repeated_a,
        repeated_b: joined.repeated_b,
        columns,
        first_changed,
        first_only_a: a.names(key, &joined.only_a, shown)?,
        first_only_b: b.names(key, &joined.only_b, shown)?,
    })
}

/// Column in which rows differ, and whether each of the shown rows does.
struct DifferingColumn {
    column: ChangedColumn,
    shown: Vec<bool>,
}

fn first_changed(
    a: &NamedTable,
    b: &NamedTable,
    key: Option<&str>,
    joined: &JoinedRows,
    differing: &[DifferingColumn],
    shown: usize,
) -> Result<Vec<ChangedRow>> {
    let mut rows = Vec::new();
    for (at, (row_a, row_b)) in joined.changed.iter().copied().enumerate().take(shown) {
        let changed = differing.iter().filter(|found| found.shown[at]).map(|found| found.column.column.as_str());
        let columns: Vec<String> = changed.chain(key).map(str::to_string).collect();
        let (in_a, in_b) = (a.row(row_a, &columns)?, b.row(row_b, &columns)?);
        let cell = |column: &String| {
            let of = |row: &Map<String, Value>| row.get(column).cloned().unwrap_or_default();
            let (a, b) = differing_parts(&of(&in_a), &of(&in_b));
            ChangedCell { column: column.clone(), a, b }
        };
        rows.push(ChangedRow {
            key: key_text(key, &in_a),
            row_a,
            row_b,
            cells: columns.iter().filter(|column| Some(column.as_str()) != key).map(cell).collect(),
        });
    }
    Ok(rows)
}

fn key_text(key: Option<&str>, row: &Map<String, Value>) -> Option<String> {
    key.map(|key| beginning(row.get(key).unwrap_or(&Value::Null)))
}

impl NamedTable {
    fn columns(&self) -> Result<BTreeSet<String>> {
        let schema = read_schema(&self.source).map_err(|error| error.at(&self.name))?;
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }
    fn digests(&self, key: Option<&str>, columns: &[String]) -> Result<Vec<trainyard_tables::RowDigest>> {
        row_digests(&self.source, key, columns).map_err(|error| error.at(&self.name))
    }
    fn cells(&self, column: &str, rows: &[usize]) -> Result<Vec<u128>> {
        cell_digests(&self.source, column, rows).map_err(|error| error.at(&self.name))
    }
    /// Reads some columns of a row; empty if there is no such row.
    fn row(&self, row: usize, columns: &[String]) -> Result<Map<String, Value>> {
        let part = ReadSlice { offset: row, limit: Some(1), columns: Some(columns) };
        let read = || -> Result<Option<Value>> {
            let batch = BatchReader::open_part(&self.source, &part)?.next().transpose()?;
            Ok(batch.filter(|batch| batch.num_rows() > 0).map(|batch| row_as_json(&batch, 0, CellLimits::NONE)))
        };
        Ok(match read().map_err(|error| error.at(&self.name))? {
            Some(Value::Object(cells)) => cells,
            _ => Map::new(),
        })
    }
    fn names(&self, key: Option<&str>, rows: &[usize], shown: usize) -> Result<Vec<RowName>> {
        let columns: Vec<String> = key.map(str::to_string).into_iter().collect();
        let mut names = Vec::new();
        for row in rows.iter().copied().take(shown) {
            let key = match key {
                Some(_) => key_text(key, &self.row(row, &columns)?),
                None => None,
            };
            names.push(RowName { row, key });
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
