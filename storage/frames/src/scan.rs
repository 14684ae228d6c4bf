//! Scans tables: the named columns of a Parquet file as frames of bounded size, one at a time.

use crate::exchange::frame_of;
use polars::prelude::DataFrame;
use std::path::Path;
use trainyard_core::Result;
use trainyard_tables::{BatchBounds, GroupReader};

/// Frames of a file, in order. Only one is in memory unless the caller keeps more.
pub struct FrameScan {
    reader: GroupReader,
}

impl FrameScan {
    /// Opens the named columns of a file, or all. Unknown names are ignored.
    ///
    /// Errors: invalid (no such file), data (corrupt or truncated), naming the file.
    pub fn open(path: &Path, columns: Option<&[String]>, bounds: BatchBounds) -> Result<Self> {
        Ok(Self { reader: GroupReader::open(path, columns, bounds)? })
    }
}

impl Iterator for FrameScan {
    type Item = Result<DataFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.and_then(|batch| frame_of(&batch)))
    }
}
