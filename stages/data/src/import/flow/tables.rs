//! The outputs of an import, written incrementally. An output without a row is not written.

use super::quarantine::Refused;
use crate::import::format::Imported;
use crate::solutions;
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use std::mem::take;
use std::path::PathBuf;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchWriter, Problem, RowWriter, TableBuilder, TableRow, Trajectory};

/// Open tables, and the next rows for them.
pub struct Tables {
    places: BTreeMap<&'static str, PathBuf>,
    next: Imported,
    refused: Vec<Refused>,
    problems: Option<RowWriter<Problem>>,
    trajectories: Option<RowWriter<Trajectory>>,
    preferences: Option<RowWriter<Trajectory>>,
    solutions: Option<BatchWriter>,
    quarantine: Option<BatchWriter>,
}

impl Tables {
    /// Creates tables at these places, by output.
    pub fn at(places: BTreeMap<&'static str, PathBuf>) -> Self {
        Self {
            places,
            next: Imported::default(),
            refused: Vec::new(),
            problems: None,
            trajectories: None,
            preferences: None,
            solutions: None,
            quarantine: None,
        }
    }
    /// Takes rows for the next [`Tables::write`].
    pub fn take(&mut self, rows: Imported) {
        self.next.append(rows);
    }
    /// Takes an unreadable row.
    pub fn refuse(&mut self, row: Refused) {
        self.refused.push(row);
    }
    /// Writes the taken rows.
    pub fn write(&mut self) -> Result<()> {
        let Imported { problems, trajectories, preferences, solutions } = take(&mut self.next);
        append(&mut self.problems, &problems, self.places.get("problems"))?;
        append(&mut self.trajectories, &trajectories, self.places.get("trajectories"))?;
        append(&mut self.preferences, &preferences, self.places.get("preferences"))?;
        if !solutions.is_empty() {
            append_batch(&mut self.solutions, &solutions::batch(&solutions)?, self.places.get("solutions"))?;
        }
        let refused = take(&mut self.refused);
        if !refused.is_empty() {
            append_batch(&mut self.quarantine, &quarantine(&refused)?, self.places.get("quarantine"))?;
        }
        Ok(())
    }
    /// Closes all files.
    pub fn finish(&mut self) -> Result<()> {
        self.write()?;
        self.problems.take().map(RowWriter::finish).transpose()?;
        self.trajectories.take().map(RowWriter::finish).transpose()?;
        self.preferences.take().map(RowWriter::finish).transpose()?;
        self.solutions.take().map(BatchWriter::finish).transpose()?;
        self.quarantine.take().map(BatchWriter::finish).transpose()?;
        Ok(())
    }
}

fn append<R: TableRow>(writer: &mut Option<RowWriter<R>>, rows: &[R], place: Option<&PathBuf>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if writer.is_none() {
        *writer = Some(RowWriter::create(place.ok_or_else(no_place)?)?);
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

fn quarantine(rows: &[Refused]) -> Result<RecordBatch> {
    TableBuilder::new()
        .string("file", rows.iter().map(|row| &row.file))
        .i64("line", rows.iter().map(|row| i64::try_from(row.line).unwrap_or(i64::MAX)))
        .string("reason", rows.iter().map(|row| &row.reason))
        .build()
}
