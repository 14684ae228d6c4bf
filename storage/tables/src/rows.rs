//! Typed rows in Parquet files: whole files, and streams for tables larger than memory.

use crate::decode::Columns;
use crate::file::{BatchReader, BatchWriter};
use crate::schema::conform;
use crate::{Problem, Trajectory};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use std::marker::PhantomData;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Rows turned into one Arrow batch at a time.
const ROWS: usize = 1024;

/// A struct that has an Arrow form. Implemented by [`Problem`] and [`Trajectory`].
pub trait TableRow: Sized {
    /// The Arrow schema.
    fn schema() -> SchemaRef;
    /// The columns of some rows, in the schema's order.
    fn encode(rows: &[Self]) -> Vec<ArrayRef>;
    /// The rows of some columns.
    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>>;
}

/// Writes typed rows as they come.
pub struct RowWriter<R> {
    file: BatchWriter,
    row: PhantomData<R>,
}

impl<R: TableRow> RowWriter<R> {
    /// Creates the file. Errors: invalid (no such folder), retryable (disk full).
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: BatchWriter::create(path, R::schema())?, row: PhantomData })
    }
    /// Appends rows. Errors: retryable (disk full).
    pub fn write(&mut self, rows: &[R]) -> Result<()> {
        for piece in rows.chunks(ROWS) {
            let batch = RecordBatch::try_new(R::schema(), R::encode(piece))
                .map_err(|e| Error::bug(format!("rows do not fit their schema: {e}")))?;
            self.file.write(&batch)?;
        }
        Ok(())
    }
    /// Writes the footer, without which the file cannot be read. Returns the number of rows.
    pub fn finish(self) -> Result<u64> {
        self.file.finish()
    }
}

/// Reads typed rows batch by batch.
pub struct RowReader<R> {
    file: BatchReader,
    row: PhantomData<R>,
}

impl<R: TableRow> RowReader<R> {
    /// Opens a file. Errors: invalid (no such file), data (corrupt, truncated, or with another schema).
    pub fn open(path: &Path) -> Result<Self> {
        let file = BatchReader::open(path)?;
        conform(path, &file.schema(), &R::schema())?;
        Ok(Self { file, row: PhantomData })
    }
    /// Number of rows in the file.
    pub fn rows(&self) -> u64 {
        self.file.rows()
    }
}

impl<R: TableRow> Iterator for RowReader<R> {
    /// About a thousand rows.
    type Item = Result<Vec<R>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.file.next()?;
        let path = self.file.path();
        Some(batch.and_then(|batch| R::decode(&Columns::new(path, &batch, &R::schema())?)))
    }
}

/// Writes rows as one Parquet file; equal rows give equal bytes. Returns the number of rows.
pub fn write_rows<R: TableRow>(path: &Path, rows: &[R]) -> Result<u64> {
    let mut writer = RowWriter::create(path)?;
    writer.write(rows)?;
    writer.finish()
}

/// Reads all rows of a file.
pub fn read_rows<R: TableRow>(path: &Path) -> Result<Vec<R>> {
    let reader = RowReader::open(path)?;
    let mut rows = Vec::with_capacity(usize::try_from(reader.rows()).unwrap_or(0).min(1 << 20));
    for batch in reader {
        rows.extend(batch?);
    }
    Ok(rows)
}

/// [`write_rows`] for a `problems` artifact.
pub fn write_problems(path: &Path, rows: &[Problem]) -> Result<u64> {
    write_rows(path, rows)
}

/// [`read_rows`] for a `problems` artifact.
pub fn read_problems(path: &Path) -> Result<Vec<Problem>> {
    read_rows(path)
}

/// [`write_rows`] for a `trajectories` artifact.
pub fn write_trajectories(path: &Path, rows: &[Trajectory]) -> Result<u64> {
    write_rows(path, rows)
}

/// [`read_rows`] for a `trajectories` artifact.
pub fn read_trajectories(path: &Path) -> Result<Vec<Trajectory>> {
    read_rows(path)
}
