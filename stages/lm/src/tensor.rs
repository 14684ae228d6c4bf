//! Errors of tensor operations in this crate's words.

use trainyard_core::Error;

/// A failed tensor operation: shapes and types are checked before, so it is a bug.
pub(crate) fn candle(error: candle_core::Error) -> Error {
    Error::bug(format!("tensor operation failed: {error}"))
}
