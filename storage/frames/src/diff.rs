//! The difference between two tables, row by row under a key.
//!
//! Rows are compared as canonical JSON, nested cells included, by digest first; only rows that differ are read again for the
//! columns that do. Refuses: a key that names no column or is not unique.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::digest::canonical_json;
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::json::{Cut, row_as_json};
use trainyard_tables::{BatchReader, read_schema};

/// Rows and cells that are listed of each sort; the counts are complete.
const LISTED: usize = 100;

/// A cell that differs between rows of one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Values of the key columns.
    pub key: Vec<Value>,
    pub column: String,
    pub a: Value,
    pub b: Value,
}

/// What differs between tables `a` and `b`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TableDiff {
    pub rows_a: u64,
    pub rows_b: u64,
    /// Columns that only one has: compared rows leave them out.
    pub columns_only_a: Vec<String>,
    pub columns_only_b: Vec<String>,
    /// Keys that only one has, sorted; the first 100, and how many in all.
    pub only_a: Vec<Vec<Value>>,
    pub only_a_count: u64,
    pub only_b: Vec<Vec<Value>>,
    pub only_b_count: u64,
    /// Cells that differ, by key and column; the first 100, and how many rows differ in all.
    pub changes: Vec<Change>,
    pub changed_rows: u64,
    /// For each common column, in how many of the listed rows it differs.
    pub changed_columns: BTreeMap<String, u64>,
}

impl TableDiff {
    /// The tables hold the same rows and columns, in whatever order.
    pub fn is_empty(&self) -> bool {
        let columns = self.columns_only_a.is_empty() && self.columns_only_b.is_empty();
        columns && self.only_a_count == 0 && self.only_b_count == 0 && self.changed_rows == 0
    }
}

/// Compares two tables by key columns. Errors: invalid (no such column, a key twice), data (corrupt file).
pub fn diff(a: &Path, b: &Path, key: &[&str]) -> Result<TableDiff> {
    let (names_a, names_b) = (names(a)?, names(b)?);
    let common: BTreeSet<_> = names_a.intersection(&names_b).cloned().collect();
    if key.is_empty() {
        return Err(Error::invalid("a row diff needs at least one key column"));
    }
    if let Some(missing) = key.iter().find(|column| !common.contains(**column)) {
        return Err(Error::invalid(format!("no column `{missing}` in both tables"))
            .help(format!("columns of both: {}", common.iter().cloned().collect::<Vec<_>>().join(", "))));
    }
    let (rows_a, rows_b) = (index(a, key, &common)?, index(b, key, &common)?);
    let mut found = TableDiff { rows_a: rows_a.len() as u64, rows_b: rows_b.len() as u64, ..TableDiff::default() };
    found.columns_only_a = names_a.difference(&names_b).cloned().collect();
    found.columns_only_b = names_b.difference(&names_a).cloned().collect();
    (found.only_a, found.only_a_count) = missing_from(&rows_a, &rows_b);
    (found.only_b, found.only_b_count) = missing_from(&rows_b, &rows_a);
    let changed: Vec<_> = rows_a
        .iter()
        .filter(|(key, row)| rows_b.get(*key).is_some_and(|other| other.digest != row.digest))
        .map(|(key, _)| key.clone())
        .collect();
    found.changed_rows = changed.len() as u64;
    let listed: BTreeSet<_> = changed.into_iter().take(LISTED).collect();
    list_changes(&mut found, &rows(a, key, &common, &listed)?, &rows(b, key, &common, &listed)?);
    Ok(found)
}

/// Rows by the text of their key: the key itself, and the cells by column.
type Rows = BTreeMap<String, (Vec<Value>, Map<String, Value>)>;

/// A row known by its digest.
struct Row {
    key: Vec<Value>,
    digest: Digest,
}

fn names(path: &Path) -> Result<BTreeSet<String>> {
    Ok(read_schema(path)?.fields().iter().map(|field| field.name().clone()).collect())
}

fn index(path: &Path, key: &[&str], columns: &BTreeSet<String>) -> Result<BTreeMap<String, Row>> {
    let mut found = BTreeMap::new();
    each_row(path, key, columns, |text, key, row| {
        let digest = Digest::of(&canonical_json(&row)?);
        match found.insert(text, Row { key: key.clone(), digest }) {
            None => Ok(()),
            Some(_) => {
                Err(Error::invalid(format!("{}: two rows have the key {}", path.display(), Value::Array(key)))
                    .help("name more key columns"))
            }
        }
    })?;
    Ok(found)
}

fn rows(path: &Path, key: &[&str], columns: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Result<Rows> {
    let mut found = BTreeMap::new();
    if !wanted.is_empty() {
        each_row(path, key, columns, |text, key, row| {
            if wanted.contains(&text) {
                found.insert(text, (key, row));
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Calls `visit` with each row's key as text (which orders and names it), its key and its cells of the given columns.
fn each_row(
    path: &Path,
    key: &[&str],
    columns: &BTreeSet<String>,
    mut visit: impl FnMut(String, Vec<Value>, Map<String, Value>) -> Result<()>,
) -> Result<()> {
    for batch in BatchReader::open(path)? {
        let batch = batch?;
        for i in 0..batch.num_rows() {
            let Value::Object(mut row) = row_as_json(&batch, i, Cut::NONE) else { continue };
            row.retain(|name, _| columns.contains(name));
            let values: Vec<_> = key.iter().map(|name| row[*name].clone()).collect();
            visit(sortable(&values), values, row)?;
        }
    }
    Ok(())
}

/// Text that sorts as the values do: whole numbers by size, the rest as JSON.
fn sortable(key: &[Value]) -> String {
    let part = |value: &Value| match value.as_i64() {
        Some(number) => format!("{:020}", i128::from(number) - i128::from(i64::MIN)),
        None => value.to_string(),
    };
    key.iter().map(part).collect::<Vec<_>>().join("\u{1f}")
}

fn missing_from(these: &BTreeMap<String, Row>, those: &BTreeMap<String, Row>) -> (Vec<Vec<Value>>, u64) {
    let missing = || these.iter().filter(|(key, _)| !those.contains_key(*key)).map(|(_, row)| row.key.clone());
    (missing().take(LISTED).collect(), missing().count() as u64)
}

fn list_changes(found: &mut TableDiff, a: &Rows, b: &Rows) {
    for (text, (key, row)) in a {
        let Some((_, other)) = b.get(text) else { continue };
        for (column, cell) in row.iter().filter(|(column, cell)| other.get(*column) != Some(*cell)) {
            *found.changed_columns.entry(column.clone()).or_default() += 1;
            if found.changes.len() < LISTED {
                found.changes.push(Change {
                    key: key.clone(),
                    column: column.clone(),
                    a: cell.clone(),
                    b: other.get(column).cloned().unwrap_or_default(),
                });
            }
        }
    }
}
