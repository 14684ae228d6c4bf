//! Copies selected rows of a table of any schema.

use crate::file::{BatchReader, BatchWriter, read_batches, write_batches};
use arrow_array::{BooleanArray, RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
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

/// Copies rows by number, in any order and with repetitions. Holds the table in memory. Returns the number of copied
/// rows.
///
/// Errors: bug (a number past the end).
pub fn take_rows(from: &Path, to: &Path, rows: &[u64]) -> Result<u64> {
    let (schema, batches) = read_batches(from)?;
    let table: RecordBatch = concat_batches(&schema, &batches).map_err(|e| no_copy(from, &e))?;
    if let Some(row) = rows.iter().find(|row| **row >= table.num_rows() as u64) {
        return Err(Error::bug(format!(
            "{} has {} rows, but row {row} was requested",
            from.display(),
            table.num_rows()
        )));
    }
    let selected = take_record_batch(&table, &UInt64Array::from(rows.to_vec())).map_err(|e| no_copy(from, &e))?;
    write_batches(to, schema, &[selected])
}

fn no_copy(from: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::bug(format!("rows of {} cannot be copied: {error}", from.display()))
}
