//! Evaluates filter expressions: one boolean SQL expression over the columns of a table, for every row.
//!
//! An expression has no joins and no subqueries, so it cannot multiply rows. Its time and memory are not bounded here:
//! a filter comes from a workflow file, and the attempt that evaluates it is a separate process with a `timeout`.

use crate::database::{QueryDatabase, QueryLimits, column_names, source_column_hint};
use crate::dialect::{kind_of, rewrite_row_expression};
use crate::error::query_error;
use crate::flatten::CellKind;
use crate::statement::{ColumnSelection, expression, referenced_columns};
use arrow_schema::Schema;
use rusqlite::Error as Sqlite;
use rusqlite::types::Value as Cell;
use sqlparser::ast::Expr;
use trainyard_core::{Error, Result};
use trainyard_tables::TableSource;

pub(crate) const TABLE: &str = "self";

/// A parsed filter expression.
#[derive(Debug)]
pub struct FilterExpression {
    text: String,
    condition: Expr,
    words: ColumnSelection,
}

impl FilterExpression {
    /// Parses a condition such as `reward > 0.5 AND level >= 2`. Errors: invalid (syntax, a subquery).
    pub fn parse(text: &str) -> Result<Self> {
        let mut condition = expression(text)?;
        rewrite_row_expression(&mut condition);
        Ok(Self { text: text.to_string(), condition, words: referenced_columns(text)? })
    }
    /// Returns the condition as SQLite reads it: its functions have SQLite's names, and `/` divides floats.
    pub fn condition(&self) -> &Expr {
        &self.condition
    }
    /// Returns the columns of a table that the expression may read, at least one.
    pub fn columns(&self, schema: &Schema) -> Vec<String> {
        self.words.columns(schema)
    }
    /// Whether SQLite accepts the expression over flat columns, and it is true or false by its form.
    pub fn is_condition_over(&self, columns: &[(String, CellKind)]) -> Result<bool> {
        let database = QueryDatabase::new(0)?;
        let accepted = || {
            database.create(TABLE, columns, &[])?;
            database.connection.prepare(&self.statement()).map(drop)
        };
        Ok(self.has_truth(columns) && accepted().is_ok())
    }
    /// Evaluates the expression in SQLite for each row of a Parquet file; null counts as false. Aggregates are those of
    /// the whole table (`reward > avg(reward)`).
    ///
    /// Errors: invalid (unknown column, not true or false), data (corrupt file).
    pub fn mask(&self, source: impl Into<TableSource>) -> Result<Vec<bool>> {
        let source = &source.into();
        let mut database = QueryDatabase::new(QueryLimits::default().bytes)?;
        let columns = database.load(TABLE, source, &self.words)?;
        let mask = || -> Result<Vec<bool>, Sqlite> {
            let mut statement = database.connection.prepare(&self.statement())?;
            let rows = statement.query_map([], |row| Ok(row.get::<_, Cell>(0)? == Cell::Integer(1)))?;
            rows.collect()
        };
        // An unknown column has no kind either; SQLite's error names it.
        let mask = mask().map_err(|e| {
            let error = query_error(&self.subject(), &e);
            match source_column_hint(&column_names(source).unwrap_or_default(), &self.words) {
                Some(hint) => error.help(hint),
                None => with_columns(error, source),
            }
        })?;
        if self.has_truth(&columns) {
            return Ok(mask);
        }
        Err(not_a_condition(&self.subject()))
    }

    fn has_truth(&self, columns: &[(String, CellKind)]) -> bool {
        let kind =
            |name: &str| columns.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
        kind_of(&self.condition, &kind) == Some(CellKind::Bool)
    }
    fn subject(&self) -> String {
        format!("the filter `{}`", self.text)
    }
    fn statement(&self) -> String {
        format!("SELECT {} FROM {TABLE}", self.condition)
    }
}

/// Evaluates `text` for each row of a Parquet file, as [`FilterExpression::mask`] does.
pub fn filter_mask(source: impl Into<TableSource>, text: &str) -> Result<Vec<bool>> {
    let source = &source.into();
    let parsed = FilterExpression::parse(text);
    parsed.map_err(|e| if e.help.is_none() { with_columns(e, source) } else { e })?.mask(source)
}

/// Names the columns of a file in the help of an error. An unreadable file is reported elsewhere.
fn with_columns(error: Error, source: &TableSource) -> Error {
    error.help(format!("the columns are: {}", column_names(source).unwrap_or_default().join(", ")))
}

/// Returns the error of an expression that is not true or false.
pub(crate) fn not_a_condition(subject: &str) -> Error {
    Error::invalid(format!("{subject} is a value, not true or false")).help("write a comparison, e.g. `reward > 0.5`")
}
