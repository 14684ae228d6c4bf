//! Reads a Parquet file row group by row group, in batches of bounded size.

use crate::file_error::unreadable;
use crate::source::TableSource;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::ColumnChunkMetaData;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::Result;

/// Bounds on the size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// Maximum rows of a batch.
    pub rows: usize,
    /// Bytes of a batch, estimated from the mean row of its row group in decoded form; a batch has at least one row.
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
    source: TableSource,
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
    pub fn open(source: impl Into<TableSource>, columns: Option<&[String]>, bounds: BatchBounds) -> Result<Self> {
        let source = source.into();
        let bytes = source.open()?;
        let metadata = source.decode(|| ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::default()))?;
        let whole = metadata.schema();
        let wanted = |name: &String| columns.is_none_or(|columns| columns.contains(name));
        let kept: Vec<usize> =
            whole.fields().iter().enumerate().filter(|(_, field)| wanted(field.name())).map(|(i, _)| i).collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), kept.iter().copied());
        let schema = Arc::new(whole.project(&kept).map_err(|e| unreadable(source.path(), e))?);
        Ok(Self { source, metadata, mask, schema, bounds, next_group: 0, current: None, failed: false })
    }
    /// Returns the schema of the batches, with the file's metadata.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.source.path()
    }
    /// Returns the number of rows in the whole file.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Opens the next row group. Returns whether there was one.
    fn open_group(&mut self) -> Result<bool> {
        let parquet = self.metadata.metadata();
        let Some(group) = parquet.row_groups().get(self.next_group) else { return Ok(false) };
        let leaves = group.columns().iter().enumerate().filter(|(leaf, _)| self.mask.leaf_included(*leaf));
        let bytes = leaves.map(|(_, column)| decoded_bytes(column)).fold(0, u64::saturating_add);
        let rows = self.bounds.rows_of(bytes, group.num_rows().unsigned_abs());
        let bytes = self.source.open()?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, self.metadata.clone())
            .with_projection(self.mask.clone())
            .with_row_groups(vec![self.next_group])
            .with_batch_size(rows);
        self.current = Some(self.source.decode(|| builder.build())?);
        self.next_group += 1;
        Ok(true)
    }
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(reader) = &mut self.current {
                let batch = self.source.decode(|| reader.next().transpose())?;
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

/// Returns the bytes of the values of a column in memory. A file may hold a value many times in a few bytes.
pub(crate) fn decoded_bytes(column: &ColumnChunkMetaData) -> u64 {
    let width = match column.column_type() {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        PhysicalType::INT96 => 12,
        PhysicalType::BYTE_ARRAY => 0,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().max(0),
    };
    let values = column.num_values().saturating_mul(i64::from(width));
    let texts = column.unencoded_byte_array_data_bytes().unwrap_or(0);
    values.saturating_add(texts).max(column.uncompressed_size()).unsigned_abs()
}

/// Returns the number of bytes of all rows of a file in memory, estimated from its footer.
pub fn byte_count(source: impl Into<TableSource>) -> Result<u64> {
    let source = source.into();
    let bytes = source.open()?;
    let metadata = source.decode(|| ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::default()))?;
    let columns = metadata.metadata().row_groups().iter().flat_map(|group| group.columns());
    Ok(columns.map(decoded_bytes).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::truncated_table;
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
    fn values_that_a_file_holds_once_count_as_often_as_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let text = "x".repeat(10_000);
        TableBuilder::new().i64("n", (0..1000).map(|_| 7)).string("text", vec![&text; 1000]).write(&path).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 100_000);
        let sizes = |column: &str, bytes: u64| -> Vec<usize> {
            let bounds = BatchBounds { rows: usize::MAX, bytes };
            let reader = GroupReader::open(&path, Some(&[column.to_string()]), bounds).unwrap();
            reader.map(|batch| batch.unwrap().num_rows()).collect()
        };
        assert_eq!(sizes("text", 4_000_000), [400, 400, 200]);
        assert_eq!(sizes("n", 4_000), [500, 500]);
    }

    #[test]
    fn truncated_files_are_errors_that_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = truncated_table(folder.path());
        let error = GroupReader::open(&path, None, BatchBounds::default()).err().unwrap();
        assert!(error.message.contains("data.parquet"), "{error}");
    }
}
