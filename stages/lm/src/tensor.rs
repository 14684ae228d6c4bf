//! Converts tensor errors to errors of this crate's kind.

use trainyard_core::Error;

/// Converts a failed tensor operation: shapes and types are checked before, so it is a bug.
pub(crate) fn candle(error: candle_core::Error) -> Error {
    Error::bug(format!("tensor operation failed: {error}"))
}
