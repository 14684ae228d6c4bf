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
        PolarsError::ColumnNotFound(text) => Error::invalid(format!("{what}: there is no column `{}`", quoted(text))),
        PolarsError::OutOfBounds(m)
        | PolarsError::ShapeMismatch(m)
        | PolarsError::SchemaMismatch(m)
        | PolarsError::InvalidOperation(m) => Error::invalid(format!("{what}: {m}")),
        PolarsError::SQLInterface(m) | PolarsError::SQLSyntax(m) if is_dump(m) => unsupported(what),
        PolarsError::SQLInterface(m) | PolarsError::SQLSyntax(m) => Error::invalid(format!("{what}: {m}")),
        other => Error::invalid(format!("{what}: {other}")),
    }
}

/// What stands in quotes, which is the column; the whole text if nothing does. Polars also lists the columns it was given, which are
/// only those that the statement could name.
fn quoted(text: &str) -> &str {
    text.split(['"', '`']).nth(1).unwrap_or(text)
}

/// Whether a message shows the parser's own structures instead of words.
fn is_dump(message: &str) -> bool {
    ["Ident {", "CompoundFieldAccess", "Subscript", "Span("].iter().any(|mark| message.contains(mark))
}

fn unsupported(what: &str) -> Error {
    Error::invalid(format!("{what}: a part of this statement is not supported, such as `a[1]` or `a.b` on nested values"))
        .help("lists of structs (`messages`) are JSON text here: search them with `like`, or print a row with `artifacts show --row N`")
}
