//! Runs the statement of `artifacts query`: one SELECT over one or more tables.

use crate::database::{QueryDatabase, QueryLimits, column_names, source_column_hint};
use crate::dialect::{kind_of, rewrite_for_sqlite};
use crate::error::query_error;
use crate::flatten::{CellKind, quoted};
use crate::result::QueryResult;
use crate::statement::parse_query;
use rusqlite::Error as Sqlite;
use rusqlite::types::Value as Cell;
use sqlparser::ast::{Query, SelectItem, SetExpr};
use std::path::Path;
use trainyard_core::Result;

/// Returns the names of the tables that a statement reads, sorted; names of artifacts contain `/`. Errors: invalid (no
/// SELECT).
pub fn table_names(sql: &str) -> Result<Vec<String>> {
    Ok(parse_query(sql)?.tables.into_iter().collect())
}

/// Runs one read-only SELECT. `tables` are the names that the statement may use (`self`, …) and their Parquet files;
/// those that it does not name are not loaded.
///
/// A result that a grouping query leaves unordered is sorted by its columns, so equal tables have equal results.
/// Blocks. The limits bound the input and the result; intermediate rows (of a cross join) are bounded only by the
/// process. Errors: invalid (no SELECT, unknown column or function, more input than allowed), data (corrupt file, out
/// of memory).
pub fn query(tables: &[(&str, &Path)], sql: &str, limits: QueryLimits) -> Result<QueryResult> {
    let mut accepted = parse_query(sql)?;
    rewrite_for_sqlite(&mut accepted.query);
    let mut database = QueryDatabase::new(limits.bytes)?;
    let mut columns = Vec::new();
    let is_named = |name: &str| accepted.tables.iter().any(|table| table.eq_ignore_ascii_case(name));
    for (name, path) in tables.iter().filter(|(name, _)| is_named(name)) {
        columns.extend(database.load(name, &(*path).into(), &accepted.columns)?);
    }
    let answered = run_statement(&database, &accepted.query, accepted.unordered, &columns, limits.rows);
    answered.map_err(|e| {
        let error = query_error("this query", &e);
        if error.help.is_some() {
            return error;
        }
        let known: Vec<(&str, Vec<String>)> =
            tables.iter().map(|(name, path)| (*name, column_names(&(*path).into()).unwrap_or_default())).collect();
        let hint = known.iter().find_map(|(_, columns)| source_column_hint(columns, &accepted.columns));
        let lists = || known.iter().map(|(name, columns)| format!("`{name}` has {}", columns.join(", ")));
        if known.is_empty() {
            error
        } else {
            error.help(hint.unwrap_or_else(|| lists().collect::<Vec<_>>().join("; ")))
        }
    })
}

/// Runs a statement; `columns` are those of its tables.
pub(crate) fn run_statement(
    database: &QueryDatabase,
    query: &Query,
    unordered: bool,
    columns: &[(String, CellKind)],
    limit: usize,
) -> Result<QueryResult, Sqlite> {
    let connection = &database.connection;
    let text = query.to_string();
    let names: Vec<String> = connection.prepare(&text)?.column_names().into_iter().map(str::to_string).collect();
    let text = if unordered { sorted(&text, &kinds(&connection.prepare(&text)?, query, columns)) } else { text };
    let mut statement = connection.prepare(&text)?;
    let kinds = kinds(&statement, query, columns);
    let width = names.len();
    let mut rows = statement.query([])?;
    let (mut cells, mut truncated) = (Vec::new(), false);
    while let Some(row) = rows.next()? {
        if cells.len() == limit {
            truncated = true;
            break;
        }
        cells.push((0..width).map(|i| row.get::<_, Cell>(i)).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(QueryResult::new(names, kinds, cells, truncated))
}

/// Infers the kind of every column of a result from its declaration or the form of its expression.
fn kinds(statement: &rusqlite::Statement<'_>, query: &Query, columns: &[(String, CellKind)]) -> Vec<Option<CellKind>> {
    let items = selected(query);
    let column = |name: &str| columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind);
    let declared = statement.columns().into_iter().map(|c| c.decl_type().and_then(CellKind::of_declared));
    let declared: Vec<Option<CellKind>> = declared.collect();
    let by_form = |i: usize| {
        items.filter(|items| items.len() == declared.len()).and_then(|items| match &items[i] {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => kind_of(e, &column),
            _ => None,
        })
    };
    declared.iter().enumerate().map(|(i, kind)| kind.or_else(|| by_form(i))).collect()
}

/// Returns the items of the outermost SELECT.
fn selected(query: &Query) -> Option<&Vec<SelectItem>> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(inner) => selected(inner),
        _ => None,
    }
}

/// Sorts the statement's rows by all sortable columns, left to right.
fn sorted(text: &str, kinds: &[Option<CellKind>]) -> String {
    let places = kinds.iter().enumerate().filter(|(_, kind)| **kind != Some(CellKind::List));
    let order: Vec<String> = places.map(|(i, _)| format!("{} NULLS LAST", i + 1)).collect();
    let order = if order.is_empty() { String::new() } else { format!(" ORDER BY {}", order.join(", ")) };
    format!("SELECT * FROM ({text}) AS {}{order}", quoted("result"))
}
