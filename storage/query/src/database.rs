//! Loads Parquet tables into an in-memory SQLite database, one batch at a time.

use crate::flatten::{CellKind, ColumnFlattener, quoted};
use crate::functions;
use crate::meta::{MetaColumn, meta_columns};
use crate::statement::ColumnSelection;
use arrow_array::RecordBatch;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Error as Sqlite, params_from_iter};
use serde_json::Value;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::json::{CellLimits, cell_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, read_schema};

/// Limits of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Maximum rows of the result; a truncated result is marked.
    pub rows: usize,
    /// Maximum bytes of the columns that are read, uncompressed, all tables together.
    pub bytes: u64,
}

impl Default for QueryLimits {
    /// Returns 1,000 rows and 2 GiB.
    fn default() -> Self {
        Self { rows: 1_000, bytes: 2 << 30 }
    }
}

/// A database for one statement.
pub(crate) struct QueryDatabase {
    pub connection: Connection,
    /// Bytes that may still be read.
    bytes_left: u64,
}

impl QueryDatabase {
    /// Creates an empty database whose tables may have `bytes` bytes.
    pub fn new(bytes: u64) -> Result<Self> {
        let connection = open().map_err(|e| Error::bug(format!("cannot open a database in memory: {e}")))?;
        Ok(Self { connection, bytes_left: bytes })
    }

    /// Loads the wanted columns of a Parquet file. Returns the flat columns of the table.
    ///
    /// Errors: those of reading the file; invalid when its columns are larger than the remaining limit.
    pub fn load(
        &mut self,
        table: &str,
        source: &TableSource,
        selection: &ColumnSelection,
    ) -> Result<Vec<(String, CellKind)>> {
        let file_schema = read_schema(source)?;
        let names = selection.columns(&file_schema);
        let reader = BatchReader::open_part(source, &ReadSlice { columns: Some(&names), ..ReadSlice::default() })?;
        let schema = reader.schema();
        let flattening = ColumnFlattener::of_file(source, &schema)?;
        let mut columns = flattening.columns();
        let of_meta = meta_columns(source, &schema, &columns)?;
        let unusable = |e: Sqlite| crate::error::query_error(&format!("the table {}", source.path().display()), &e);
        self.create(table, &columns, &of_meta).map_err(unusable)?;
        for batch in reader {
            let batch = batch?;
            let size = batch.get_array_memory_size() as u64;
            self.bytes_left = self.bytes_left.checked_sub(size).ok_or_else(|| too_large(source.path()))?;
            self.insert(table, &flattening.apply(&batch)?).map_err(unusable)?;
        }
        columns.extend(of_meta.into_iter().map(|column| (column.name, column.kind)));
        Ok(columns)
    }

    /// Creates an empty table.
    pub fn create(&self, table: &str, columns: &[(String, CellKind)], of_meta: &[MetaColumn]) -> Result<(), Sqlite> {
        let stored = columns.iter().map(|(name, kind)| format!("{} {}", quoted(name), kind.declared()));
        let columns: Vec<String> = stored.chain(of_meta.iter().map(MetaColumn::definition)).collect();
        self.connection.execute_batch(&format!("CREATE TABLE {} ({})", quoted(table), columns.join(", ")))
    }

    /// Inserts the rows of a flat batch.
    pub fn insert(&mut self, table: &str, batch: &RecordBatch) -> Result<(), Sqlite> {
        let places = vec!["?"; batch.num_columns()].join(", ");
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare(&format!("INSERT INTO {} VALUES ({places})", quoted(table)))?;
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| cell(cell_as_json(column, row, CellLimits::NONE)));
                insert.execute(params_from_iter(cells))?;
            }
        }
        transaction.commit()
    }
}

fn open() -> Result<Connection, Sqlite> {
    let connection = Connection::open_in_memory()?;
    // A misspelled column in double quotes is an error, not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection
        .execute_batch("PRAGMA temp_store = MEMORY; PRAGMA case_sensitive_like = ON; PRAGMA journal_mode = OFF;")?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    functions::register(&connection)?;
    Ok(connection)
}

/// Returns the SQL names of the columns of a Parquet file.
pub(crate) fn column_names(source: &TableSource) -> Result<Vec<String>> {
    let schema = read_schema(source)?;
    let flattening = ColumnFlattener::of_file(source, &schema)?;
    let columns = flattening.columns();
    let of_meta = meta_columns(source, &schema, &columns)?.into_iter().map(|column| column.name);
    Ok(columns.iter().map(|(name, _)| name.clone()).chain(of_meta).collect())
}

/// Returns a hint about words of a statement that are columns of the imported source, if there are any.
pub(crate) fn source_column_hint(columns: &[String], words: &ColumnSelection) -> Option<String> {
    let ColumnSelection::Words(words) = words else { return None };
    let has = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let word = words.iter().find(|word| !has(word) && has(&format!("meta_{word}")))?;
    Some(format!("the column `{word}` of the imported source is `meta_{word}`"))
}

/// Converts a JSON value for SQLite. Integers that do not fit keep their digits as text.
fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(value) => Cell::Integer(i64::from(value)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Cell::Integer(integer),
            (None, Some(_)) => Cell::Text(number.to_string()),
            (None, None) => number.as_f64().map_or(Cell::Null, Cell::Real),
        },
        Value::String(text) => Cell::Text(text),
        nested => Cell::Text(nested.to_string()),
    }
}

fn too_large(path: &Path) -> Error {
    Error::invalid(format!("the columns of {} that the statement reads are larger than the limit", path.display()))
        .help("name the columns instead of `*`, or export the table and use another program")
}
