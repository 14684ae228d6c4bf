//! Reads and writes the tables of this crate's ports.

use arrow_array::RecordBatch;
use std::path::Path;
use trainyard_api::InputArtifact;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_tables::{Problem, TableRowWriter, Trajectory};

/// Writes a whole table of problems.
pub fn write_problems(file: &Path, rows: &[Problem]) -> Result<()> {
    trainyard_tables::write_problems(file, rows).map(drop)
}

/// Writes a whole table of trajectories.
pub fn write_trajectories(file: &Path, rows: &[Trajectory]) -> Result<()> {
    trainyard_tables::write_trajectories(file, rows).map(drop)
}

/// Reads the problems of all artifacts of a `many` port, in order.
pub fn read_many_problems(artifacts: &[InputArtifact]) -> Result<Vec<Problem>> {
    let mut rows = Vec::new();
    for artifact in artifacts {
        rows.extend(trainyard_tables::read_problems(&artifact.parquet())?);
    }
    Ok(rows)
}

/// Reads the trajectories of all artifacts of a `many` port, in order.
pub fn read_many_trajectories(artifacts: &[InputArtifact]) -> Result<Vec<Trajectory>> {
    let mut rows = Vec::new();
    for artifact in artifacts {
        rows.extend(trainyard_tables::read_trajectories(&artifact.parquet())?);
    }
    Ok(rows)
}

/// Reads any table as batches.
pub fn read_table(file: &Path) -> Result<Vec<RecordBatch>> {
    trainyard_tables::read_batches(file).map(|(_, batches)| batches)
}

/// Evaluates a SQL expression over the columns of the problems' table, per row. `scratch` is a folder for a temporary
/// file.
pub fn problem_mask(rows: &[Problem], expression: &str, scratch: &Path) -> Result<Vec<bool>> {
    mask(&scratch.join("problems.parquet"), expression, |file| write_problems(file, rows))
}

/// Evaluates a SQL expression over the columns of the trajectories' table, per row. `scratch` is a folder for a
/// temporary file.
pub fn trajectory_mask(rows: &[&Trajectory], expression: &str, scratch: &Path) -> Result<Vec<bool>> {
    mask(&scratch.join("trajectories.parquet"), expression, |file| {
        let mut writer = TableRowWriter::create(file)?;
        for row in rows {
            writer.write(std::slice::from_ref(*row))?;
        }
        writer.finish().map(drop)
    })
}

/// Evaluates an expression for each row of the table that `write` writes to `file`, and removes the file.
fn mask(file: &Path, expression: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<bool>> {
    write(file)?;
    let mask = trainyard_query::filter_mask(file, expression);
    std::fs::remove_file(file).map_err(|e| io_error(file, &e))?;
    mask
}
