//! Finds the rows of each update in a table of trajectories, reading one column.

use crate::file::{BatchReader, ReadSlice};
use crate::rows::conform_rows;
use crate::source::TableSource;
use crate::trajectory::Trajectory;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// Column with the number of the update that used the row.
const COLUMN: &str = "update";

/// Rows of one update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateRows {
    /// Number of the update.
    pub update: u32,
    /// Number of the first row, from 0.
    pub first_row: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Finds the rows of each update, in the order of updates. Rows that no update used are left out.
///
/// Errors: invalid (no such file), data (corrupt, truncated, not trajectories), naming the file.
pub fn read_updates(source: impl Into<TableSource>) -> Result<Vec<UpdateRows>> {
    let source = source.into();
    let columns = [COLUMN.to_string()];
    let mut found = BTreeMap::<u32, UpdateRows>::new();
    let mut first = 0;
    for batch in BatchReader::open_part(&source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })? {
        let batch = batch?;
        let batch = conform_rows::<Trajectory>(source.path(), &batch, Some(&columns))?;
        let updates = batch.column_by_name(COLUMN).map(|column| column.as_primitive::<UInt32Type>());
        let updates = updates.ok_or_else(|| Error::bug(format!("trajectories have no column `{COLUMN}`")))?;
        for (row, update) in (first..).zip(updates.iter()) {
            let Some(update) = update else { continue };
            found.entry(update).or_insert(UpdateRows { update, first_row: row, rows: 0 }).rows += 1;
        }
        first += batch.num_rows() as u64;
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_trajectories;

    #[test]
    fn updates_have_their_first_row_and_their_number_of_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row = |update: Option<u32>| Trajectory { update, ..Trajectory::default() };
        let rows = [None, Some(7), Some(7), Some(3), None, Some(7)].map(row);
        write_trajectories(&path, &rows).unwrap();
        let of = |update, first_row, rows| UpdateRows { update, first_row, rows };
        assert_eq!(read_updates(path.as_path()).unwrap(), [of(3, 3, 1), of(7, 1, 3)]);
        write_trajectories(&path, &[row(None)]).unwrap();
        assert!(read_updates(path.as_path()).unwrap().is_empty());
        assert!(read_updates(folder.path().join("none.parquet").as_path()).is_err());
    }
}
