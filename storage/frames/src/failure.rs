//! Errors of Polars, which nearly always mean that the query is wrong.

use polars::prelude::PolarsError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trainyard_core::{Error, Result};

/// Runs a step of Polars. Its errors say what is wrong with the query; its panics mean that this build lacks a feature.
pub(crate) fn guarded<T>(what: &str, step: impl FnOnce() -> Result<T, PolarsError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(wrong(what, &error)),
        Err(_) => Err(Error::invalid(format!("{what}: this build of Polars cannot do that"))
            .help("write it another way, or export the table and use another program")),
    }
}

fn wrong(what: &str, error: &PolarsError) -> Error {
    match error {
        PolarsError::ColumnNotFound(name) => Error::invalid(format!("{what}: there is no column {name}")),
        PolarsError::OutOfBounds(m)
        | PolarsError::ShapeMismatch(m)
        | PolarsError::SchemaMismatch(m)
        | PolarsError::InvalidOperation(m) => Error::invalid(format!("{what}: {m}")),
        PolarsError::SQLInterface(m) | PolarsError::SQLSyntax(m) => Error::invalid(format!("{what}: {m}")),
        other => Error::invalid(format!("{what}: {other}")),
    }
}
