//! Reads rows of a table by number, in one pass over the row groups that have them.

use crate::decoded_batches::DecodedBatches;
use crate::file::open;
use crate::source::TableSource;
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use trainyard_core::Result;

/// Reader of chosen rows, batch by batch.
pub struct ChosenRows {
    batches: DecodedBatches,
}

impl ChosenRows {
    /// Opens the named columns of some rows, given in ascending order and each once; unknown names and rows past the
    /// end are ignored. A batch has at most `batch` rows.
    ///
    /// Errors: invalid (no such file), data (corrupt or truncated), naming the file.
    pub fn open(source: impl Into<TableSource>, columns: &[&str], rows: &[u64], batch: usize) -> Result<Self> {
        let source = source.into();
        let builder = open(&source)?;
        let (groups, selection) = selection_of(builder.metadata(), rows);
        let fields = builder.schema().fields().iter().enumerate();
        let kept: Vec<usize> =
            fields.filter(|(_, field)| columns.contains(&field.name().as_str())).map(|(at, _)| at).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), kept);
        let builder = builder.with_row_groups(groups).with_row_selection(selection);
        let builder = builder.with_projection(mask).with_batch_size(batch.max(1));
        Ok(Self { batches: DecodedBatches::build(source, builder)? })
    }
}

impl Iterator for ChosenRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

/// Returns the row groups that have the rows, and the places of the rows in these groups.
fn selection_of(metadata: &ParquetMetaData, rows: &[u64]) -> (Vec<usize>, RowSelection) {
    let (mut groups, mut selectors) = (Vec::new(), Vec::new());
    let (mut first, mut done) = (0, 0);
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let end = first + group.num_rows().unsigned_abs();
        let count = rows[done..].partition_point(|row| *row < end);
        if count > 0 {
            groups.push(number);
            let mut at = first;
            for row in &rows[done..done + count] {
                selectors.push(RowSelector::skip((*row - at) as usize));
                selectors.push(RowSelector::select(1));
                at = row + 1;
            }
            selectors.push(RowSelector::skip((end - at) as usize));
        }
        done += count;
        first = end;
    }
    (groups, RowSelection::from(selectors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::truncated_table;
    use crate::{BatchWriter, TableBuilder};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn chosen_rows_come_from_several_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let texts = (0..250).map(|i| format!("text {i}"));
        let batch = TableBuilder::new().i64("n", 0..250).string("text", texts).build().unwrap();
        let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 100).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let numbers = |rows: &[u64], batch: usize| -> Vec<Vec<i64>> {
            let batches = ChosenRows::open(&path, &["n", "none"], rows, batch).unwrap().map(Result::unwrap);
            batches
                .map(|batch| {
                    assert_eq!(batch.num_columns(), 1);
                    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
                })
                .collect()
        };
        assert_eq!(numbers(&[0, 99, 100, 249], 10).concat(), [0, 99, 100, 249]);
        assert_eq!(numbers(&[205, 206, 400], 10).concat(), [205, 206]);
        assert_eq!(numbers(&[1, 2, 3], 2), [vec![1, 2], vec![3]]);
        assert!(numbers(&[], 10).concat().is_empty());
        assert!(numbers(&[250], 10).concat().is_empty());
    }

    #[test]
    fn truncated_files_are_errors_that_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = truncated_table(folder.path());
        let error = ChosenRows::open(&path, &["n"], &[1], 10).err().unwrap();
        assert!(error.message.contains("data.parquet"), "{error}");
    }
}
