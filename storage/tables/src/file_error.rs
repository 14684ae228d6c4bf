//! Builds the errors of Parquet files.
//!
//! The decoder does not check every invariant, so damage inside a page may cause a panic. This module catches the panic
//! and returns the same error as for any other damage.

use parquet::errors::ParquetError;
use std::fmt::Display;
use std::io;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::panics::catch_quietly;
use trainyard_core::{Error, Result};

/// Returns the error of a file that cannot be read as Parquet.
pub(crate) fn unreadable(path: &Path, why: impl Display) -> Error {
    Error::data(format!("{} is corrupt, truncated or not a Parquet file: {why}", path.display()))
        .help("give another file, or run the stage that made it again")
}

/// Returns the error of a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: ParquetError) -> Error {
    match find_io(&error) {
        Some(io) => io_error(path, io),
        None => Error::bug(format!("{} cannot be written: {error}", path.display())),
    }
}

/// Runs a step of reading. Errors and panics of the decoder become an error that names the file.
pub(crate) fn catch_decode_errors<T, E: Display>(path: &Path, step: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch_quietly(step) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(unreadable(path, e)),
        Err(_) => Err(unreadable(path, "its pages cannot be decoded")),
    }
}

fn find_io(error: &ParquetError) -> Option<&io::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = source {
        if let Some(io) = this.downcast_ref::<io::Error>() {
            return Some(io);
        }
        source = this.source();
    }
    None
}
