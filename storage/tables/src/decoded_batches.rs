//! Decodes the batches of a Parquet reader. Errors name the file.

use crate::source::{TableBytes, TableSource};
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::path::Path;
use trainyard_core::Result;

/// Batches of an open source, which end after the first error.
pub(crate) struct DecodedBatches {
    source: TableSource,
    reader: ParquetRecordBatchReader,
    failed: bool,
}

impl DecodedBatches {
    /// Builds the reader. Errors: data (corrupt or truncated), naming the file.
    pub(crate) fn build(source: TableSource, builder: ParquetRecordBatchReaderBuilder<TableBytes>) -> Result<Self> {
        let reader = source.decode(|| builder.build())?;
        Ok(Self { source, reader, failed: false })
    }
    /// Returns the path of the file, or the name of the object.
    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }
}

impl Iterator for DecodedBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let reader = &mut self.reader;
        let next = self.source.decode(|| reader.next().transpose());
        self.failed = next.is_err();
        next.transpose()
    }
}
