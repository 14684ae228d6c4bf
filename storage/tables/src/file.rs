//! Reads and writes Parquet files as Arrow batches.
//!
//! The bytes of a file depend only on its rows. The encoder decides about pages once per write, so batches are first
//! cut into pieces of a fixed size.

use crate::file_error::{catch_decode_errors, unreadable, unwritable};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Rows passed to the encoder at once.
const BATCH_ROWS: usize = 1024;
/// Rows of a row group.
pub(crate) const ROW_GROUP: usize = 16 * BATCH_ROWS;
const CREATED_BY: &str = "trainyard";
const ZSTD_LEVEL: i32 = 3;

/// Writes batches of one schema to a Parquet file.
pub struct BatchWriter {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    batch_rows: usize,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    rows: u64,
}

impl BatchWriter {
    /// Creates the file. Errors: invalid (no such folder), retryable (disk full).
    pub fn create(path: &Path, schema: SchemaRef) -> Result<Self> {
        Self::create_grouped(path, schema, ROW_GROUP)
    }
    /// Creates a file of row groups of `group` rows, for rows that are large. Errors: those of [`BatchWriter::create`].
    pub fn create_grouped(path: &Path, schema: SchemaRef, group: usize) -> Result<Self> {
        let file = File::create(path).map_err(|e| io_error(path, &e))?;
        let writer =
            ArrowWriter::try_new(file, schema.clone(), Some(properties(group)?)).map_err(|e| unwritable(path, e))?;
        let path = path.to_path_buf();
        Ok(Self {
            path,
            schema,
            writer,
            batch_rows: BATCH_ROWS.min(group),
            pending: Vec::new(),
            pending_rows: 0,
            rows: 0,
        })
    }
    /// Appends rows. Errors: bug (another schema), retryable (disk full).
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema_ref().fields() != self.schema.fields() {
            return Err(Error::bug(format!("{}: a batch does not have the schema of its file", self.path.display())));
        }
        self.rows += batch.num_rows() as u64;
        self.pending_rows += batch.num_rows();
        self.pending.push(batch.clone());
        if self.pending_rows >= self.batch_rows { self.write_pending(false) } else { Ok(()) }
    }
    /// Writes the footer, without which the file cannot be read. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64> {
        self.write_pending(true)?;
        self.writer.close().map_err(|e| unwritable(&self.path, e))?;
        Ok(self.rows)
    }

    fn write_pending(&mut self, all: bool) -> Result<()> {
        let joined = concat_batches(&self.schema, &self.pending)
            .map_err(|e| Error::bug(format!("{}: batches cannot be joined: {e}", self.path.display())))?;
        let mut at = 0;
        while joined.num_rows() - at >= self.batch_rows || (all && at < joined.num_rows()) {
            let length = self.batch_rows.min(joined.num_rows() - at);
            self.writer.write(&joined.slice(at, length)).map_err(|e| unwritable(&self.path, e))?;
            at += length;
        }
        self.pending_rows = joined.num_rows() - at;
        self.pending = if self.pending_rows == 0 { Vec::new() } else { vec![joined.slice(at, self.pending_rows)] };
        Ok(())
    }
}

fn properties(group: usize) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(|e| Error::bug(format!("no such zstd level: {e}")))?;
    Ok(WriterProperties::builder()
        .set_created_by(CREATED_BY.to_string())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(group))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build())
}

/// Part of a file to read.
#[derive(Debug, Clone, Default)]
pub struct ReadSlice<'a> {
    /// Number of rows to skip.
    pub offset: usize,
    /// Maximum number of rows to read; `None` reads all.
    pub limit: Option<usize>,
    /// Columns by name, read in the file's order; `None` reads all. Unknown names are ignored.
    pub columns: Option<&'a [String]>,
}

/// Reads a Parquet file batch by batch.
pub struct BatchReader {
    path: PathBuf,
    rows: u64,
    schema: SchemaRef,
    reader: ParquetRecordBatchReader,
    failed: bool,
}

impl BatchReader {
    /// Opens a whole file. Errors: invalid (no such file), data (corrupt or truncated), naming the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_part(path, &ReadSlice::default())
    }
    /// Opens some rows or columns of a file. Errors: those of [`BatchReader::open`].
    pub fn open_part(path: &Path, part: &ReadSlice<'_>) -> Result<Self> {
        let builder = open(path)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        // The reader's own schema lacks the file's metadata.
        let mut schema = builder.schema().clone();
        let mut builder = builder.with_batch_size(BATCH_ROWS).with_offset(part.offset);
        if let Some(limit) = part.limit {
            builder = builder.with_limit(limit);
        }
        if let Some(names) = part.columns {
            let kept: Vec<_> =
                schema.fields().iter().enumerate().filter(|(_, f)| names.contains(f.name())).map(|(i, _)| i).collect();
            builder = {
                let mask = ProjectionMask::roots(builder.parquet_schema(), kept.iter().copied());
                builder.with_projection(mask)
            };
            schema = Arc::new(schema.project(&kept).map_err(|e| unreadable(path, e))?);
        }
        let reader = catch_decode_errors(path, || builder.build())?;
        Ok(Self { path: path.to_path_buf(), rows, schema, reader, failed: false })
    }
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns the schema of the batches, with the file's metadata.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    /// Returns the number of rows in the whole file.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let reader = &mut self.reader;
        let next = catch_decode_errors(&self.path, || reader.next().transpose());
        self.failed = next.is_err();
        next.transpose()
    }
}

fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(|e| io_error(path, &e))?;
    if file.metadata().map_err(|e| io_error(path, &e))?.is_dir() {
        return Err(unreadable(path, "it is a folder"));
    }
    catch_decode_errors(path, || ParquetRecordBatchReaderBuilder::try_new(file))
}

/// Writes batches as one file. Returns the number of rows.
pub fn write_batches(path: &Path, schema: SchemaRef, batches: &[RecordBatch]) -> Result<u64> {
    let mut writer = BatchWriter::create(path, schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

/// Reads a whole file: its schema and its batches.
pub fn read_batches(path: &Path) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let reader = BatchReader::open(path)?;
    Ok((reader.schema(), reader.collect::<Result<_>>()?))
}

/// Returns the schema of a file.
pub fn read_schema(path: &Path) -> Result<SchemaRef> {
    Ok(open(path)?.schema().clone())
}

/// Returns the number of rows of a file, from its footer.
pub fn row_count(path: &Path) -> Result<u64> {
    Ok(u64::try_from(open(path)?.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// Returns the number of bytes of all rows of a file before compression, from its footer.
pub fn byte_count(path: &Path) -> Result<u64> {
    let groups = open(path)?.metadata().row_groups().iter().map(|group| group.total_byte_size().unsigned_abs()).sum();
    Ok(groups)
}
