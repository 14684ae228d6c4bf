//! Reads a Parquet file row group by row group, in batches of bounded size.

use crate::file_error::{catch_decode_errors, unreadable};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_core::error::io_error;

/// Bounds on the size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// Maximum rows of a batch.
    pub rows: usize,
    /// Bytes of a batch, estimated from the mean row of its row group; a batch has at least one row.
    pub bytes: u64,
}

impl Default for BatchBounds {
    /// Returns 16,384 rows and 32 MiB.
    fn default() -> Self {
        Self { rows: crate::file::ROW_GROUP, bytes: 32 << 20 }
    }
}

/// Reads the row groups of a file in order; no batch has rows of two groups.
pub struct GroupReader {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    schema: SchemaRef,
    bounds: BatchBounds,
    next_group: usize,
    current: Option<ParquetRecordBatchReader>,
    failed: bool,
}

impl GroupReader {
    /// Opens the named columns of a file, or all. Unknown names are ignored.
    ///
    /// Errors: invalid (no such file), data (corrupt or truncated), naming the file.
    pub fn open(path: &Path, columns: Option<&[String]>, bounds: BatchBounds) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        let metadata = catch_decode_errors(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()))?;
        let whole = metadata.schema();
        let wanted = |name: &String| columns.is_none_or(|columns| columns.contains(name));
        let kept: Vec<usize> =
            whole.fields().iter().enumerate().filter(|(_, field)| wanted(field.name())).map(|(i, _)| i).collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), kept.iter().copied());
        let schema = Arc::new(whole.project(&kept).map_err(|e| unreadable(path, e))?);
        let path = path.to_path_buf();
        Ok(Self { path, metadata, mask, schema, bounds, next_group: 0, current: None, failed: false })
    }
    /// Returns the schema of the batches, with the file's metadata.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns the number of rows in the whole file.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Opens the next row group. Returns whether there was one.
    fn open_group(&mut self) -> Result<bool> {
        let parquet = self.metadata.metadata();
        let Some(group) = parquet.row_groups().get(self.next_group) else { return Ok(false) };
        let bytes: i64 = group
            .columns()
            .iter()
            .enumerate()
            .filter(|(leaf, _)| self.mask.leaf_included(*leaf))
            .map(|(_, column)| column.uncompressed_size())
            .sum();
        let rows = self.bounds.rows_of(bytes.unsigned_abs(), group.num_rows().unsigned_abs());
        let file = File::open(&self.path).map_err(|e| io_error(&self.path, &e))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.mask.clone())
            .with_row_groups(vec![self.next_group])
            .with_batch_size(rows);
        self.current = Some(catch_decode_errors(&self.path, || builder.build())?);
        self.next_group += 1;
        Ok(true)
    }
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(reader) = &mut self.current {
                let batch = catch_decode_errors(&self.path, || reader.next().transpose())?;
                if batch.is_some() {
                    return Ok(batch);
                }
            }
            if !self.open_group()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for GroupReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read();
        self.failed = next.is_err();
        next.transpose()
    }
}

impl BatchBounds {
    /// Returns the rows of a batch of rows like these `rows`, which have `bytes` bytes.
    pub fn rows_of(self, bytes: u64, rows: u64) -> usize {
        let fit = self.bytes.saturating_mul(rows.max(1)) / bytes.max(1);
        usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, self.rows.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchWriter, TableBuilder};

    #[test]
    fn batches_end_with_their_group_and_at_the_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = (0..250).map(|i| format!("{i:03}{}", "x".repeat(997)));
        let batch = TableBuilder::new().i64("n", 0..250).string("text", texts).build().unwrap();
        let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 100).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let sizes = |columns: Option<&[String]>, bounds: BatchBounds| -> Vec<usize> {
            GroupReader::open(&path, columns, bounds).unwrap().map(|batch| batch.unwrap().num_rows()).collect()
        };
        assert_eq!(sizes(None, BatchBounds::default()), [100, 100, 50]);
        assert_eq!(sizes(None, BatchBounds { rows: 60, bytes: u64::MAX }), [60, 40, 60, 40, 50]);
        let by_bytes = sizes(None, BatchBounds { rows: 1000, bytes: 20_000 });
        let full = by_bytes.iter().filter(|rows| (10..=20).contains(*rows)).count();
        // The last batch of each of the three groups may be smaller.
        assert!(by_bytes.iter().all(|rows| *rows <= 20) && by_bytes.iter().sum::<usize>() == 250, "{by_bytes:?}");
        assert!(full + 3 >= by_bytes.len(), "{by_bytes:?}");
        // The bound counts only columns that are read.
        let numbers = ["n".to_string(), "none".to_string()];
        assert_eq!(sizes(Some(&numbers), BatchBounds { rows: 1000, bytes: 20_000 }), [100, 100, 50]);
        let reader = GroupReader::open(&path, Some(&numbers), BatchBounds::default()).unwrap();
        assert_eq!(reader.schema().fields().len(), 1);
    }

    #[test]
    fn truncated_files_are_errors_that_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        TableBuilder::new().i64("n", 0..250).write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let error = GroupReader::open(&path, None, BatchBounds::default()).err().unwrap();
        assert!(error.message.contains("data.parquet"), "{error}");
    }
}
