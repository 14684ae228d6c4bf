//! Copies selected rows of a table of any schema.

use crate::file::{BatchReader, BatchWriter};
use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Copies the rows whose entry in `keep` is true, in order and streaming. Returns their number.
///
/// Errors: bug (`keep` has another length than the table).
pub fn select_rows(from: &Path, to: &Path, keep: &[bool]) -> Result<u64> {
    let reader = BatchReader::open(from)?;
    if reader.rows() != keep.len() as u64 {
        return Err(Error::bug(format!(
            "{} has {} rows, but the selection has {}",
            from.display(),
            reader.rows(),
            keep.len()
        )));
    }
    let mut writer = BatchWriter::create(to, reader.schema())?;
    let mut at = 0;
    for batch in reader {
        let batch = batch?;
        let mask = BooleanArray::from(keep[at..at + batch.num_rows()].to_vec());
        at += batch.num_rows();
        writer.write(&filter_record_batch(&batch, &mask).map_err(|e| no_copy(from, &e))?)?;
    }
    writer.finish()
}

fn no_copy(from: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::bug(format!("rows of {} cannot be copied: {error}", from.display()))
}
