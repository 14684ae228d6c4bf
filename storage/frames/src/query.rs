//! Runs the statement of `artifacts query`: large tables are grouped here, and SQLite does the rest.

use crate::groups::GroupCollector;
use std::path::Path;
use trainyard_core::Result;
use trainyard_query::{ColumnFlattener, GroupedStatement, QueryLimits, QueryResult, table_names};
use trainyard_tables::{BatchBounds, GroupReader, read_schema, row_count};

/// Rows from which on a table is grouped here.
const LARGE: u64 = 1_000_000;

/// Runs one read-only SELECT as [`trainyard_query::query()`] does.
///
/// A statement that groups one table of at least a million rows by plain expressions reads it batch by batch: the
/// memory depends on the number of groups, not on `limits.bytes`. Sums of floats may differ in their last digits from
/// those of SQLite, which adds in another order.
///
/// Errors: those of [`trainyard_query::query()`].
pub fn query(tables: &[(&str, &Path)], sql: &str, limits: QueryLimits) -> Result<QueryResult> {
    query_from(LARGE, tables, sql, limits)
}

pub(crate) fn query_from(large: u64, tables: &[(&str, &Path)], sql: &str, limits: QueryLimits) -> Result<QueryResult> {
    let named = table_names(sql)?;
    if let [name] = named.as_slice()
        && let Some((_, path)) = tables.iter().find(|(table, _)| table.eq_ignore_ascii_case(name))
        && row_count(*path)? >= large
        && let Some(result) = grouped(path, sql, limits.rows)?
    {
        return Ok(result);
    }
    trainyard_query::query(tables, sql, limits)
}

/// Groups a table. Returns `None` if SQLite must run the statement.
fn grouped(path: &Path, sql: &str, limit: usize) -> Result<Option<QueryResult>> {
    let Some(statement) = GroupedStatement::parse(sql)? else { return Ok(None) };
    let names = statement.columns(&*read_schema(path)?);
    let read = |columns: &[String]| GroupReader::open(path, Some(columns), BatchBounds::default());
    let reader = read(&names)?;
    let flattener = ColumnFlattener::of_table(&reader.schema(), read)?;
    let Some(statement) = statement.split(&flattener.columns())? else { return Ok(None) };
    let mut collector = GroupCollector::new(&statement, row_count(path)?);
    for batch in reader {
        if collector.add(&flattener.apply(&batch?)?)?.is_none() {
            return Ok(None);
        }
    }
    let Some((groups, kinds)) = collector.finish()? else { return Ok(None) };
    statement.finish(&groups, &kinds, limit).map(Some)
}
