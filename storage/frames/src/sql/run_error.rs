//! Errors of a run of a statement.

use polars::error::PolarsError;
use trainyard_core::Error;

/// An error of polars, or one that is already explained.
pub(super) enum RunError {
    Polars(PolarsError),
    Own(Error),
}

impl From<PolarsError> for RunError {
    fn from(error: PolarsError) -> Self {
        Self::Polars(error)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

/// Returns the error of a result or a join with more rows than the limit.
pub(super) fn too_many_rows(what: &str) -> Error {
    Error::invalid(format!("{what}, which is the limit `max_rows`"))
        .help("filter or group the rows before, join by more columns, or raise `max_rows`")
}
