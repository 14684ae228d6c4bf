//! `artifacts query`: one SELECT over one or more tables.

use crate::failure::guarded;
use crate::handover::{QueryLimits, columns, load};
use crate::result::QueryResult;
use crate::statement::accept;
use polars::lazy::frame::IntoLazy;
use polars::prelude::{DataType, IdxSize, LazyFrame, PlSmallStr, SortMultipleOptions};
use polars::sql::SQLContext;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Runs one read-only SELECT. `tables` are the names that the statement may use (`self`, …) and their Parquet files.
///
/// A result that a grouping query leaves unordered is sorted by its columns, so equal tables give equal answers. The
/// call blocks. The limits bound what is read and returned, but not what a cross join makes in between.
///
/// Errors: invalid (not one SELECT, unknown column or function, too much input), data (corrupt file).
pub fn query(tables: &[(&str, &Path)], sql: &str, limits: QueryLimits) -> Result<QueryResult> {
    let accepted = accept(sql)?;
    let mut context = SQLContext::new();
    let mut left = limits.bytes;
    for (name, path) in tables {
        let frame = load(path, &accepted.columns, &mut left)?;
        context.register(name, frame.lazy());
    }
    let frame = guarded("this query", || {
        let frame = context.execute(sql)?;
        let frame = if accepted.unordered { sorted(frame)? } else { frame };
        let rows = IdxSize::try_from(limits.rows.saturating_add(1)).unwrap_or(IdxSize::MAX);
        frame.limit(rows).collect()
    });
    let frame = frame.map_err(|e: Error| {
        if e.help.is_some() {
            e
        } else {
            let known = tables.iter().filter_map(|(name, path)| Some((name, columns(path).ok()?)));
            let told = known.map(|(name, columns)| format!("the columns of `{name}` are {}", columns.join(", ")));
            e.help(told.collect::<Vec<_>>().join("; "))
        }
    })?;
    QueryResult::new(&frame, limits.rows)
}

/// Sorts by all columns that have an order, left to right.
fn sorted(mut frame: LazyFrame) -> Result<LazyFrame, polars::prelude::PolarsError> {
    let schema = frame.collect_schema()?;
    let names: Vec<PlSmallStr> =
        schema.iter().filter(|(_, kind)| !matches!(kind, DataType::List(_))).map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return Ok(frame);
    }
    Ok(frame.sort(names, SortMultipleOptions::default().with_maintain_order(true).with_nulls_last(true)))
}
