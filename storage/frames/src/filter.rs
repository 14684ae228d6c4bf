//! Filter expressions: one boolean SQL expression over the columns of a table, judged for every row.
//!
//! An expression cannot multiply rows: it has no joins, and subqueries are refused. It can still ask for much: cells as wide as
//! `lpad` or nested `replace` make them, for every row a copy of its group (`array_agg(…) over (…)`). Time and memory of that are
//! not bounded here: filters stand in workflow files, and the attempt that judges one is a process of its own, which `timeout` ends.

use crate::failure::guarded;
use crate::handover::{QueryLimits, load};
use crate::statement::wanted;
use polars::lazy::frame::IntoLazy;
use polars::prelude::DataType;
use polars::sql::sql_expr;
use std::path::Path;
use trainyard_core::{Error, Result};

/// The name under which Polars computes the mask; no table may have such a column.
const MASK: &str = "__mask__";

/// For each row of a table whether `expression` holds (`reward > 0.5 AND level >= 2`); null counts as false. Aggregates speak of
/// the whole table (`reward > avg(reward)`). Errors: invalid (syntax, unknown column, not boolean), data (corrupt file).
pub fn filter_mask(path: &Path, expression: &str) -> Result<Vec<bool>> {
    let what = format!("the filter `{expression}`");
    let mut left = QueryLimits::default().bytes;
    let frame = load(path, &wanted(expression)?, &mut left)?;
    let known = frame.columns().iter().map(|c| format!("`{}`", c.name())).collect::<Vec<_>>().join(", ");
    let masked = guarded(&what, || {
        let mask = sql_expr(expression)?.alias(MASK);
        frame.lazy().with_column(mask).collect()
    });
    let masked = masked.map_err(|e| {
        if e.help.is_some() { e } else { e.help(format!("of the names in it these are columns: {known}")) }
    })?;
    let mask = guarded(&what, || masked.column(MASK).cloned())?;
    if *mask.dtype() != DataType::Boolean {
        return Err(Error::invalid(format!("{what} gives {}, not true or false", mask.dtype()))
            .help("compare it with something, e.g. `reward > 0.5`"));
    }
    guarded(&what, || Ok(mask.bool()?.iter().map(|keep| keep == Some(true)).collect()))
}
