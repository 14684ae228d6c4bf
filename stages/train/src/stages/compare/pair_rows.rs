//! Reads and writes the output `pairs`: both values of every problem, by metric and table.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `metric` | string | row of the comparison |
//! | `table` | i64 | place of the table or of the seed, from 0; 0 for arms |
//! | `problem_id` | string | shared problem |
//! | `a`, `b` | f64 | values of both sides |

use crate::results::column;
use arrow_array::{Float64Array, Int64Array, StringArray};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{TableBuilder, read_batches};

/// Both values of one problem under one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRow {
    /// Row of the comparison.
    pub metric: String,
    /// Index of the table or of the seed, from 0; 0 for arms.
    pub table: usize,
    /// Shared problem.
    pub problem_id: String,
    /// Value of the first side.
    pub a: f64,
    /// Value of the second side.
    pub b: f64,
}

/// Writes the table in the order of the rows.
pub fn write(path: &Path, rows: &[PairRow]) -> Result<u64> {
    TableBuilder::new()
        .string("metric", rows.iter().map(|r| &r.metric))
        .i64("table", rows.iter().map(|r| Some(r.table as i64)))
        .string("problem_id", rows.iter().map(|r| &r.problem_id))
        .f64("a", rows.iter().map(|r| Some(r.a)))
        .f64("b", rows.iter().map(|r| Some(r.b)))
        .write(path)
}

/// Reads the table that [`write()`] wrote. Errors: data, naming the file and the column.
pub fn read(path: &Path) -> Result<Vec<PairRow>> {
    let (_, batches) = read_batches(path)?;
    let mut rows = Vec::new();
    for batch in &batches {
        let (metric, id) = (column::<StringArray>(batch, "metric")?, column::<StringArray>(batch, "problem_id")?);
        let table = column::<Int64Array>(batch, "table")?;
        let (a, b) = (column::<Float64Array>(batch, "a")?, column::<Float64Array>(batch, "b")?);
        for i in 0..batch.num_rows() {
            let table = usize::try_from(table.value(i))
                .map_err(|_| Error::data(format!("column `table` of {} holds a negative number", path.display())))?;
            let (metric, problem_id) = (metric.value(i).to_string(), id.value(i).to_string());
            rows.push(PairRow { metric, table, problem_id, a: a.value(i), b: b.value(i) });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row =
            |table: usize, id: &str, a: f64| PairRow { metric: "avg".into(), table, problem_id: id.into(), a, b: 0.25 };
        let rows = [row(0, "p", 0.5), row(1, "q", 1.0)];
        assert_eq!(write(&path, &rows).unwrap(), 2);
        assert_eq!(read(&path).unwrap(), rows);
    }
}
