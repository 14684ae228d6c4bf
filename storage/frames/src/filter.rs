//! Filter expressions: one boolean SQL expression over the columns of a table, evaluated for every row.
//!
//! An expression has no joins or subqueries, so it cannot multiply rows. Its time and memory are still not bounded here
//! (`lpad`, `array_agg(…) over (…)`): filters come from workflow files, and the attempt that evaluates one is a process
//! with a `timeout`.

use crate::failure::guarded;
use crate::handover::{QueryLimits, load};
use crate::statement::wanted;
use polars::lazy::frame::IntoLazy;
use polars::prelude::DataType;
use polars::sql::sql_expr;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Name of the mask's column in Polars; no table may have a column of this name.
const MASK: &str = "__mask__";

/// Whether `expression` holds for each row of a table (`reward > 0.5 AND level >= 2`). Null counts as false; aggregates
/// cover the whole table (`reward > avg(reward)`).
///
/// Errors: invalid (syntax, unknown column, not boolean), data (corrupt file).
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
        if e.help.is_some() { e } else { e.help(format!("of the names in it, these are columns: {known}")) }
    })?;
    let mask = guarded(&what, || masked.column(MASK).cloned())?;
    if *mask.dtype() != DataType::Boolean {
        return Err(Error::invalid(format!("{what} gives {}, not true or false", mask.dtype()))
            .help("compare it with something, as in `reward > 0.5`"));
    }
    guarded(&what, || Ok(mask.bool()?.iter().map(|keep| keep == Some(true)).collect()))
}
