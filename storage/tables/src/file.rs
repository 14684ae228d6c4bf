//! Reads and writes Parquet files as Arrow batches.
//!
//! The bytes of a file depend only on its rows. The encoder decides about pages once per write, so batches are first
//! cut into pieces. Pieces and row groups end at a number of rows, or earlier at a number of bytes: large rows are
//! neither collected nor read in great numbers.

use crate::decoded_batches::DecodedBatches;
use crate::file_error::{unreadable, unwritable};
use crate::row_bytes::bytes_before_rows;
use crate::source::{TableBytes, TableSource};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Rows passed to the encoder at once.
const BATCH_ROWS: usize = 1024;
/// Rows of a row group.
pub(crate) const ROW_GROUP: usize = 16 * BATCH_ROWS;
/// Bytes of rows that end a piece.
const PIECE_BYTES: u64 = 32 << 20;
/// Maximum bytes of the rows of a row group of more than one piece.
const GROUP_BYTES: u64 = 128 << 20;
const CREATED_BY: &str = "trainyard";
const ZSTD_LEVEL: i32 = 3;

/// Writes batches of one schema to a Parquet file.
pub struct BatchWriter {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    bounds: WriteBounds,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: u64,
    /// Bytes of the rows in the row group that is being written.
    group_bytes: u64,
    rows: u64,
}

/// Bounds at which pieces and row groups end. Bytes are those of decoded rows.
#[derive(Debug, Clone, Copy)]
struct WriteBounds {
    piece_rows: usize,
    piece_bytes: u64,
    group_bytes: u64,
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
        let bounds =
            WriteBounds { piece_rows: BATCH_ROWS.min(group), piece_bytes: PIECE_BYTES, group_bytes: GROUP_BYTES };
        Ok(Self {
            path: path.to_path_buf(),
            schema,
            writer,
            bounds,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            group_bytes: 0,
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
        self.pending_bytes += bytes_before_rows(batch).last().copied().unwrap_or(0);
        self.pending.push(batch.clone());
        let is_full = self.pending_rows >= self.bounds.piece_rows || self.pending_bytes >= self.bounds.piece_bytes;
        if is_full { self.write_pending(false) } else { Ok(()) }
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
        let bytes = bytes_before_rows(&joined);
        let mut at = 0;
        while let Some(end) = self.piece_end(&bytes, at, all) {
            self.write_piece(&joined.slice(at, end - at), bytes[end] - bytes[at])?;
            at = end;
        }
        self.pending_rows = joined.num_rows() - at;
        self.pending_bytes = bytes[joined.num_rows()] - bytes[at];
        self.pending = if self.pending_rows == 0 { Vec::new() } else { vec![joined.slice(at, self.pending_rows)] };
        Ok(())
    }
    /// Returns the end of the piece that begins with row `at`, or `None` if the rows do not fill one. The last piece
    /// of all rows may be smaller.
    fn piece_end(&self, bytes: &[u64], at: usize, all: bool) -> Option<usize> {
        let rows = bytes.len() - 1;
        let by_rows = at + self.bounds.piece_rows;
        let by_bytes = bytes.partition_point(|before| before.saturating_sub(bytes[at]) < self.bounds.piece_bytes);
        let end = by_rows.min(by_bytes);
        if end <= rows { Some(end) } else { (all && at < rows).then_some(rows) }
    }
    fn write_piece(&mut self, piece: &RecordBatch, bytes: u64) -> Result<()> {
        let failed = |e| unwritable(&self.path, e);
        if self.writer.in_progress_rows() == 0 {
            self.group_bytes = 0;
        } else if self.group_bytes + bytes > self.bounds.group_bytes {
            self.writer.flush().map_err(failed)?;
            self.group_bytes = 0;
        }
        self.group_bytes += bytes;
        self.writer.write(piece).map_err(failed)
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
    rows: u64,
    schema: SchemaRef,
    batches: DecodedBatches,
}

impl BatchReader {
    /// Opens a whole file. Errors: invalid (no such file), data (corrupt or truncated), naming the file.
    pub fn open(source: impl Into<TableSource>) -> Result<Self> {
        Self::open_part(source, &ReadSlice::default())
    }
    /// Opens some rows or columns of a file. Errors: those of [`BatchReader::open`].
    pub fn open_part(source: impl Into<TableSource>, part: &ReadSlice<'_>) -> Result<Self> {
        let source = source.into();
        let builder = open(&source)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        // The reader's own schema lacks the file's metadata.
        let mut schema = builder.schema().clone();
        // Rows of other groups would be skipped page by page.
        let (groups, offset) = groups_of(builder.metadata(), part);
        let mut builder = builder.with_row_groups(groups.collect()).with_batch_size(BATCH_ROWS).with_offset(offset);
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
            schema = Arc::new(schema.project(&kept).map_err(|e| unreadable(source.path(), e))?);
        }
        Ok(Self { rows, schema, batches: DecodedBatches::build(source, builder)? })
    }
    /// Returns the path of the file, or the name of the object.
    pub fn path(&self) -> &Path {
        self.batches.path()
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
        self.batches.next()
    }
}

pub(crate) fn open(source: &TableSource) -> Result<ParquetRecordBatchReaderBuilder<TableBytes>> {
    let bytes = source.open()?;
    let builder = source.decode(|| ParquetRecordBatchReaderBuilder::try_new(bytes))?;
    let claimed = builder.metadata().file_metadata().num_rows();
    let present: i128 = builder.metadata().row_groups().iter().map(|group| i128::from(group.num_rows())).sum();
    if i128::from(claimed) != present {
        let what = format!("its footer claims {claimed} rows, but its row groups have {present}");
        return Err(unreadable(source.path(), what));
    }
    Ok(builder)
}

/// Returns the row groups that have the rows of a part, and the number of rows to skip in the first of them.
fn groups_of(metadata: &ParquetMetaData, part: &ReadSlice<'_>) -> (Range<usize>, usize) {
    let rows = |group: &RowGroupMetaData| usize::try_from(group.num_rows()).unwrap_or(0);
    let groups = metadata.row_groups();
    let (mut first, mut offset) = (0, part.offset);
    while let Some(group) = groups.get(first).filter(|group| rows(group) <= offset) {
        offset -= rows(group);
        first += 1;
    }
    let (mut end, mut reached) = (first, 0);
    let wanted = part.limit.map_or(usize::MAX, |limit| offset.saturating_add(limit));
    while let Some(group) = groups.get(end).filter(|_| reached < wanted) {
        reached += rows(group);
        end += 1;
    }
    (first..end, offset)
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
pub fn read_schema(source: impl Into<TableSource>) -> Result<SchemaRef> {
    Ok(open(&source.into())?.schema().clone())
}

/// Returns the number of rows of a file, from its footer.
pub fn row_count(source: impl Into<TableSource>) -> Result<u64> {
    Ok(u64::try_from(open(&source.into())?.metadata().file_metadata().num_rows()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableBuilder;
    use trainyard_core::ErrorKind;

    /// Returns the rows of each row group of a file with texts of these lengths, and the file's bytes.
    fn written(lengths: &[usize], division: usize) -> (Vec<i64>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = |lengths: &[usize]| lengths.iter().map(|length| "x".repeat(*length)).collect::<Vec<_>>();
        let batch = |lengths: &[usize]| TableBuilder::new().string("text", texts(lengths)).build().unwrap();
        let mut writer = BatchWriter::create(&path, batch(&[]).schema()).unwrap();
        writer.bounds = WriteBounds { piece_rows: 4, piece_bytes: 100, group_bytes: 250 };
        lengths.chunks(division).for_each(|lengths| writer.write(&batch(lengths)).unwrap());
        assert!(writer.pending_rows < 4 && writer.pending_bytes < 100);
        assert_eq!(writer.finish().unwrap(), lengths.len() as u64);
        let (_, batches) = read_batches(&path).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), lengths.len());
        let groups =
            open(&(&path).into()).unwrap().metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        (groups, std::fs::read(&path).unwrap())
    }

    #[test]
    fn rows_of_the_footer_must_be_those_of_the_row_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        TableBuilder::new().i64("n", 0..3).write(&path).unwrap();
        assert_eq!(row_count(&path).unwrap(), 3);
        let mut bytes = std::fs::read(&path).unwrap();
        // In the footer: an i64 of 3, then a list of one struct, the row groups.
        let claim = bytes.windows(4).rposition(|found| found == [0x16, 6, 0x19, 0x1c]).unwrap();
        bytes[claim + 1] = 10;
        std::fs::write(&path, bytes).unwrap();
        for error in [row_count(&path).unwrap_err(), BatchReader::open(&path).err().unwrap()] {
            assert!(error.message.contains("claims 5 rows, but its row groups have 3"), "{error}");
        }
    }

    #[test]
    fn pieces_and_groups_end_at_their_bytes_in_any_division() {
        // Pieces of 4, 3, 1, 4 and 2 rows have 4, 101, 500, 4 and 90 bytes.
        let lengths = [1, 1, 1, 1, 1, 90, 10, 500, 1, 1, 1, 1, 40, 50];
        let (groups, bytes) = written(&lengths, 1);
        assert_eq!(groups, [7, 1, 6]);
        for division in [2, 3, 5, 14] {
            assert!(written(&lengths, division) == (groups.clone(), bytes.clone()), "{division}");
        }
        assert_eq!(written(&[1; 14], 5).0, [14], "small rows are one group");
    }

    #[test]
    fn a_full_disk_is_retryable_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("full");
        std::os::unix::fs::symlink("/dev/full", path).unwrap();
        let batch = TableBuilder::new().i64("n", 0..4000).build().unwrap();
        let error = write_batches(path, batch.schema(), &[batch]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
        assert!(error.message.contains("/full: No space left") && error.help.is_some(), "{error}");
    }
}
