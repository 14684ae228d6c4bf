//! Reads typed rows in batches of bounded size, for tables whose rows may be large.

use crate::decode::BatchColumns;
use crate::extra::ExtraColumns;
use crate::groups::{BatchBounds, GroupReader};
use crate::rows::TableRow;
use crate::schema::conform;
use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use std::path::Path;
use trainyard_core::Result;

/// Maximum rows of a batch.
const ROWS: usize = 1024;
/// Bytes of a batch, as [`BatchBounds::bytes`] counts them.
const BYTES: u64 = 16 << 20;

/// Reads the rows of a file in order, in batches of at most 1,024 rows and about 16 MiB. With `columns`, the other
/// columns are not read and have their defaults.
///
/// Errors: invalid (no such file), data (corrupt, truncated, or with another schema), naming the file.
pub fn read_bounded<'a, R: TableRow + 'a>(
    path: &'a Path,
    columns: Option<&'a [String]>,
) -> Result<impl Iterator<Item = Result<Vec<R>>> + 'a> {
    let batches = GroupReader::open(path, columns, BatchBounds { rows: ROWS, bytes: BYTES })?;
    let whole = R::schema(ExtraColumns::ALL);
    let wanted = |field: &&FieldRef| columns.is_none_or(|columns| columns.contains(field.name()));
    conform(path, &batches.schema(), &Schema::new(whole.fields().iter().filter(wanted).cloned().collect::<Vec<_>>()))?;
    let decode = move |batch: Result<RecordBatch>| match columns {
        None => R::decode(&BatchColumns::new(path, &batch?, &whole)?),
        Some(_) => R::decode(&BatchColumns::part(path, &batch?, &whole)?),
    };
    Ok(batches.map(decode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableRowReader, Trajectory, write_rows};

    #[test]
    fn batches_are_bounded_and_hold_the_rows_of_a_plain_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let tokens = |i: u32| (0..8000).map(|k| (i * 8191 + k * 31) % 50_021).collect::<Vec<u32>>();
        let row = |i: u32| Trajectory {
            id: format!("t{i}"),
            problem_id: format!("p{}", i / 3),
            loss_mask: vec![i.is_multiple_of(2); 8000],
            turn: vec![0; 8000],
            token_ids: tokens(i),
            ..Trajectory::default()
        };
        let rows: Vec<Trajectory> = (0..1500).map(row).collect();
        write_rows(&path, &rows).unwrap();
        let batches: Vec<Vec<Trajectory>> = read_bounded(&path, None).unwrap().map(Result::unwrap).collect();
        assert!(batches.len() > 2 && batches.iter().all(|batch| batch.len() < 1024), "{}", batches.len());
        assert!(batches.concat() == rows);
        let plain: Vec<Vec<Trajectory>> = TableRowReader::open(&path).unwrap().map(Result::unwrap).collect();
        assert!(plain.concat() == rows);
        let columns = ["problem_id".to_string()];
        let ids: Vec<Vec<Trajectory>> = read_bounded(&path, Some(&columns)).unwrap().map(Result::unwrap).collect();
        assert_eq!(ids.iter().map(Vec::len).collect::<Vec<_>>(), [1024, 476]);
        assert!(ids.concat().iter().zip(&rows).all(|(a, b)| a.problem_id == b.problem_id && a.token_ids.is_empty()));
    }

    #[test]
    fn files_of_another_schema_are_errors_that_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        crate::TableBuilder::new().i64("n", 0..3).write(&path).unwrap();
        let error = read_bounded::<Trajectory>(&path, None).err().unwrap();
        assert!(error.message.contains("data.parquet"), "{error}");
        let columns = ["problem_id".to_string()];
        let error = read_bounded::<Trajectory>(&path, Some(&columns)).err().unwrap();
        assert!(error.message.contains("problem_id"), "{error}");
    }
}
