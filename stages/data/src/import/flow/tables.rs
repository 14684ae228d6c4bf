//! Writes the outputs of an import incrementally. An output without rows is not written.

use super::quarantine::QuarantinedRow;
use crate::import::format::ImportedRows;
use crate::solutions;
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::mem::take;
use std::path::PathBuf;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchWriter, Problem, TableBuilder, TableRow, TableRowWriter, Trajectory};

/// Open tables, and the next rows for them.
pub struct ImportTables {
    places: BTreeMap<&'static str, PathBuf>,
    next: ImportedRows,
    quarantined_rows: Vec<QuarantinedRow>,
    problems: Option<TableRowWriter<Problem>>,
    trajectories: Option<TableRowWriter<Trajectory>>,
    preferences: Option<TableRowWriter<Trajectory>>,
    solutions: Option<BatchWriter>,
    quarantine: Option<BatchWriter>,
}

impl ImportTables {
    /// Creates tables that are written to these files, by output.
    pub fn at(places: BTreeMap<&'static str, PathBuf>) -> Self {
        Self {
            places,
            next: ImportedRows::default(),
            quarantined_rows: Vec::new(),
            problems: None,
            trajectories: None,
            preferences: None,
            solutions: None,
            quarantine: None,
        }
    }
    /// Takes rows for the next [`ImportTables::write`].
    pub fn take(&mut self, rows: ImportedRows) {
        self.next.append(rows);
    }
    /// Takes an unreadable row for the next [`ImportTables::write`].
    pub fn refuse(&mut self, row: QuarantinedRow) {
        self.quarantined_rows.push(row);
    }
    /// Writes the taken rows.
    pub fn write(&mut self) -> Result<()> {
        let ImportedRows { problems, trajectories, preferences, solutions } = take(&mut self.next);
        append(&mut self.problems, &problems, self.places.get("problems"))?;
        append(&mut self.trajectories, &trajectories, self.places.get("trajectories"))?;
        append(&mut self.preferences, &preferences, self.places.get("preferences"))?;
        if !solutions.is_empty() {
            append_batch(&mut self.solutions, &solutions::batch(&solutions)?, self.places.get("solutions"))?;
        }
        let refused = take(&mut self.quarantined_rows);
        if !refused.is_empty() {
            append_batch(&mut self.quarantine, &quarantine(&refused)?, self.places.get("quarantine"))?;
        }
        Ok(())
    }
    /// Writes the remaining rows and closes all files.
    pub fn finish(&mut self) -> Result<()> {
        self.write()?;
        self.problems.take().map(TableRowWriter::finish).transpose()?;
        self.trajectories.take().map(TableRowWriter::finish).transpose()?;
        self.preferences.take().map(TableRowWriter::finish).transpose()?;
        self.solutions.take().map(BatchWriter::finish).transpose()?;
        self.quarantine.take().map(BatchWriter::finish).transpose()?;
        Ok(())
    }
}

fn append<R: TableRow>(writer: &mut Option<TableRowWriter<R>>, rows: &[R], place: Option<&PathBuf>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if writer.is_none() {
        *writer = Some(TableRowWriter::create(place.ok_or_else(no_place)?)?);
    }
    writer.as_mut().map_or(Ok(()), |writer| writer.write(rows))
}

fn append_batch(writer: &mut Option<BatchWriter>, batch: &RecordBatch, place: Option<&PathBuf>) -> Result<()> {
    if writer.is_none() {
        *writer = Some(BatchWriter::create(place.ok_or_else(no_place)?, batch.schema())?);
    }
    writer.as_mut().map_or(Ok(()), |writer| writer.write(batch))
}

fn no_place() -> Error {
    Error::bug("an import format fills an output that the stage does not have")
}

fn quarantine(rows: &[QuarantinedRow]) -> Result<RecordBatch> {
    TableBuilder::new()
        .string("file", rows.iter().map(|row| &row.file))
        .i64("line", rows.iter().map(|row| i64::try_from(row.line).unwrap_or(i64::MAX)))
        .string("reason", rows.iter().map(|row| &row.reason))
        .build()
}
