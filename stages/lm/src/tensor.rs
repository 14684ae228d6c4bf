//! Converts tensor errors to errors of this crate's kind.

use trainyard_core::Error;

/// Converts the error of a failed tensor operation to a bug, because callers check shapes and types before.
pub(crate) fn candle(error: candle_core::Error) -> Error {
    Error::bug(format!("tensor operation failed: {error}"))
}
