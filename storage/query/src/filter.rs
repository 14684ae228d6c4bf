//! Evaluates filter expressions: one boolean SQL expression over the columns of a table, for every row.
//!
//! An expression has no joins and no subqueries, so it cannot multiply rows. Its time and memory are not bounded here:
//! a filter comes from a workflow file, and the attempt that evaluates it is a separate process with a `timeout`.

use crate::database::{QueryDatabase, QueryLimits, column_names, source_column_hint};
use crate::dialect::{kind_of, rewrite_row_expression};
use crate::error::query_error;
use crate::flatten::CellKind;
use crate::statement::{expression, referenced_columns};
use rusqlite::Error as Sqlite;
use rusqlite::types::Value as Cell;
use std::path::Path;
use trainyard_core::{Error, Result};

pub(crate) const TABLE: &str = "self";

/// Evaluates `text` (`reward > 0.5 AND level >= 2`) for each row of a Parquet file; null counts as false. Aggregates
/// are those of the whole table (`reward > avg(reward)`).
///
/// Errors: invalid (syntax, unknown column, not true or false), data (corrupt file).
pub fn filter_mask(path: &Path, text: &str) -> Result<Vec<bool>> {
    let subject = format!("the filter `{text}`");
    // An unreadable file is reported below.
    let known = || format!("the columns are: {}", column_names(path).unwrap_or_default().join(", "));
    let parsed = expression(text);
    let mut condition = parsed.map_err(|e| if e.help.is_none() { e.help(known()) } else { e })?;
    let mut database = QueryDatabase::new(QueryLimits::default().bytes)?;
    let words = referenced_columns(text)?;
    let columns = database.load(TABLE, path, &words)?;
    let kind = |name: &str| columns.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
    rewrite_row_expression(&mut condition);
    let mask = || -> Result<Vec<bool>, Sqlite> {
        let mut statement = database.connection.prepare(&format!("SELECT {condition} FROM {TABLE}"))?;
        let rows = statement.query_map([], |row| Ok(row.get::<_, Cell>(0)? == Cell::Integer(1)))?;
        rows.collect()
    };
    // An unknown column has no kind either; SQLite's error names it.
    let mask = mask().map_err(|e| {
        let hint = source_column_hint(&column_names(path).unwrap_or_default(), &words);
        query_error(&subject, &e).help(hint.unwrap_or_else(known))
    });
    match kind_of(&condition, &kind) {
        Some(CellKind::Bool) => mask,
        _ => {
            mask?;
            Err(not_a_condition(&subject))
        }
    }
}

/// Returns the error of an expression that is not true or false.
pub(crate) fn not_a_condition(subject: &str) -> Error {
    Error::invalid(format!("{subject} is a value, not true or false")).help("write a comparison, e.g. `reward > 0.5`")
}
