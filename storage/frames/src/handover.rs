//! Hands a table to Polars as Arrow IPC streams, one batch at a time, so that memory never holds two whole copies.

use crate::failure::guarded;
use crate::flatten::{Flattening, map_keys};
use crate::statement::Wanted;
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use polars::prelude::{DataFrame, IpcStreamReader, SerReader};
use std::io::Cursor;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchReader, Part, read_schema};

/// Bounds of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Number of rows of the result; more are cut off, and the result says so.
    pub rows: usize,
    /// Uncompressed bytes of the columns that are read, over all tables.
    pub bytes: u64,
}

impl Default for QueryLimits {
    /// 1,000 rows from 2 GiB.
    fn default() -> Self {
        Self { rows: 1_000, bytes: 2 << 30 }
    }
}

/// Loads the wanted columns of a table. `left` is the number of bytes that may still be read.
///
/// Errors: those of reading; invalid, if the columns are larger than what is left.
pub(crate) fn load(path: &Path, wanted: &Wanted, left: &mut u64) -> Result<DataFrame> {
    let whole = read_schema(path)?;
    let mut names: Vec<_> =
        whole.fields().iter().map(|field| field.name().clone()).filter(|name| wanted.includes(name)).collect();
    if names.is_empty() {
        // One column is needed for the number of rows.
        names.extend(whole.fields().first().map(|field| field.name().clone()));
    }
    let reader = BatchReader::open_part(path, &Part { columns: Some(&names), ..Part::default() })?;
    let schema = reader.schema();
    let flattening = Flattening::new(&schema, &map_keys(path, &schema)?);
    let mut frame = hand_over(&RecordBatch::new_empty(flattening.schema().clone()))?;
    for batch in reader {
        let batch = batch?;
        let size = batch.get_array_memory_size() as u64;
        *left = left.checked_sub(size).ok_or_else(|| too_large(path))?;
        let next = hand_over(&flattening.apply(&batch)?)?;
        guarded("joining batches", || frame.vstack_mut_owned(next).map(|_| ()))?;
    }
    frame.rechunk_mut();
    Ok(frame)
}

/// What statements call the columns of a table.
pub(crate) fn columns(path: &Path) -> Result<Vec<String>> {
    let schema = read_schema(path)?;
    let flattening = Flattening::new(&schema, &map_keys(path, &schema)?);
    Ok(flattening.schema().fields().iter().map(|field| field.name().clone()).collect())
}

fn hand_over(batch: &RecordBatch) -> Result<DataFrame> {
    let stream = encode(batch).map_err(|e| Error::bug(format!("a batch has no IPC form: {e}")))?;
    guarded("reading a batch", || IpcStreamReader::new(Cursor::new(stream)).finish())
}

fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    if batch.num_rows() > 0 {
        writer.write(batch)?;
    }
    writer.finish()?;
    writer.into_inner()
}

fn too_large(path: &Path) -> Error {
    Error::invalid(format!("the columns that this query needs from {} are larger than the limit", path.display()))
        .help("name the columns instead of `*`, or export the table and use another program")
}
