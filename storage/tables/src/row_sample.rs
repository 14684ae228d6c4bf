//! Reads the first rows of some row groups, spread evenly over a table.

use crate::groups::{BatchBounds, decoded_bytes};
use crate::source::TableSource;
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use trainyard_core::Result;

/// Bounds on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleBounds {
    /// Maximum row groups.
    pub groups: usize,
    /// Maximum rows, and estimated bytes, of each row group.
    pub of_group: BatchBounds,
}

/// Sample of a table's rows.
#[derive(Debug, Clone)]
pub struct RowSample {
    /// Rows that were read.
    pub batches: Vec<RecordBatch>,
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of rows of the table.
    pub rows_total: u64,
    /// Number of row groups that were read.
    pub groups: usize,
    /// Number of row groups of the table.
    pub groups_total: usize,
}

/// Reads the named columns of the first rows of some row groups; unknown names are ignored. All rows are read if there
/// are no more than the bounds permit.
///
/// Errors: invalid (no such file), data (corrupt or truncated), naming the file.
pub fn sample_rows(source: impl Into<TableSource>, columns: &[String], bounds: SampleBounds) -> Result<RowSample> {
    let source = source.into();
    let bytes = source.open()?;
    let metadata = source.decode(|| ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::default()))?;
    let fields = metadata.schema().fields().iter().enumerate();
    let kept: Vec<usize> = fields.filter(|(_, field)| columns.contains(field.name())).map(|(at, _)| at).collect();
    let mask = ProjectionMask::roots(metadata.parquet_schema(), kept);
    let parquet = metadata.metadata();
    let chosen = spread(parquet.num_row_groups(), bounds.groups);
    let mut batches = Vec::new();
    for number in &chosen {
        let group = parquet.row_group(*number);
        let leaves = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let size = leaves.map(|(_, column)| decoded_bytes(column)).fold(0, u64::saturating_add);
        let rows = bounds.of_group.rows_of(size, group.num_rows().unsigned_abs());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source.open()?, metadata.clone())
            .with_projection(mask.clone())
            .with_row_groups(vec![*number])
            .with_batch_size(rows)
            .with_limit(rows);
        let mut reader = source.decode(|| builder.build())?;
        while let Some(batch) = source.decode(|| reader.next().transpose())? {
            batches.push(batch);
        }
    }
    Ok(RowSample {
        rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
        batches,
        rows_total: u64::try_from(parquet.file_metadata().num_rows()).unwrap_or(0),
        groups: chosen.len(),
        groups_total: parquet.num_row_groups(),
    })
}

/// Returns at most `count` of the numbers below `total`, each in the middle of an equal part.
fn spread(total: usize, count: usize) -> Vec<usize> {
    let count = count.min(total);
    (0..count).map(|part| (2 * part + 1) * total / (2 * count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchWriter, TableBuilder};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn groups_are_spread_evenly() {
        assert_eq!(spread(10, 2), [2, 7]);
        assert_eq!(spread(3, 8), [0, 1, 2]);
        assert_eq!(spread(610, 4), [76, 228, 381, 533]);
        assert!(spread(0, 4).is_empty());
    }

    #[test]
    fn first_rows_of_some_groups_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = (0..100).map(|i| format!("text {i}"));
        let batch = TableBuilder::new().i64("n", 0..100).string("text", texts).build().unwrap();
        let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 10).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let sample = |groups, rows| {
            let bounds = SampleBounds { groups, of_group: BatchBounds { rows, bytes: 1 << 20 } };
            let sample = sample_rows(&path, &["n".to_string(), "none".to_string()], bounds).unwrap();
            let numbers = sample.batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
            (numbers.copied().collect::<Vec<i64>>(), sample.rows, sample.rows_total, sample.groups, sample.groups_total)
        };
        assert_eq!(sample(2, 3), (vec![20, 21, 22, 70, 71, 72], 6, 100, 2, 10));
        assert_eq!(sample(20, 99), ((0..100).collect(), 100, 100, 10, 10), "all rows are within the bounds");
        let narrow = SampleBounds { groups: 1, of_group: BatchBounds { rows: 10, bytes: 1 } };
        assert_eq!(sample_rows(&path, &["text".to_string()], narrow).unwrap().rows, 1, "bytes are bounded, too");
    }
}
