//! Reads and writes the tables of this crate's ports.

use arrow_array::RecordBatch;
use std::path::Path;
use trainyard_api::InputArtifact;
use trainyard_core::Result;
use trainyard_tables::{Problem, Trajectory};

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
