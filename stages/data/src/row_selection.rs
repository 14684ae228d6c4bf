//! Selects rows of files by one condition after another, reading only the columns of each condition.
//!
//! The memory is one byte a row, and that of one batch. A condition in SQL takes another byte a row; what only SQLite
//! can answer takes the columns of the expression in SQLite's memory.

use crate::row_files::RowFiles;
use crate::row_mask::{needed_columns, parse_expression, table_mask};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::Schema;
use arrow_select::filter::filter_record_batch;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_frames::Batches;
use trainyard_tables::{ExtraColumns, TableRow};

/// The rows of some files that are selected so far.
pub struct RowSelection<'a, R> {
    files: &'a RowFiles<'a, R>,
    keep: Vec<bool>,
}

impl<'a, R: TableRow> RowSelection<'a, R> {
    /// Selects all rows. Errors: those of [`RowFiles::check_columns`].
    pub fn all(files: &'a RowFiles<'a, R>) -> Result<Self> {
        files.check_columns()?;
        Ok(Self { files, keep: vec![true; files.rows()?] })
    }
    /// Selects the rows with these numbers. Errors: those of reading; bug (a number past the end).
    pub fn of(files: &'a RowFiles<'a, R>, numbers: impl Iterator<Item = usize>) -> Result<Self> {
        let mut keep = vec![false; files.rows()?];
        for number in numbers {
            let place = keep.get_mut(number).ok_or_else(|| Error::bug(format!("the files have no row {number}")))?;
            *place = true;
        }
        Ok(Self { files, keep })
    }
    /// Returns the numbers of the selected rows, in order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(number, _)| number)
    }
    /// Returns the number of selected rows.
    pub fn count(&self) -> usize {
        self.keep.iter().filter(|keep| **keep).count()
    }
    /// Returns whether each row is selected.
    pub fn mask(&self) -> &[bool] {
        &self.keep
    }
    /// Selects of the selected rows those that `judge` keeps. It receives batches of selected rows with the named
    /// columns.
    ///
    /// Errors: those of reading and of `judge`.
    pub fn retain(
        &mut self,
        columns: &[&str],
        mut judge: impl FnMut(&Path, &RecordBatch) -> Result<Vec<bool>>,
    ) -> Result<()> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let mut first = 0;
        let (files, keep) = (self.files, &mut self.keep);
        files.each_batch(Some(&columns), |path, batch| {
            let places = &mut keep[first..first + batch.num_rows()];
            first += batch.num_rows();
            let batch = kept_rows(batch, places)?;
            if batch.num_rows() > 0 {
                let mut judged = judge(path, &batch)?.into_iter();
                places.iter_mut().filter(|keep| **keep).for_each(|keep| *keep = judged.next().unwrap_or(false));
            }
            Ok(())
        })
    }
    /// Selects of the selected rows those for which a SQL expression is true; aggregates are those of the selected
    /// rows. `scratch` is a folder for a temporary file.
    ///
    /// Errors: those of reading, invalid (syntax, an unknown column, not true or false).
    pub fn retain_where(&mut self, expression: &str, scratch: &Path) -> Result<()> {
        let expression = parse_expression::<R>(expression)?;
        if self.count() == 0 {
            return Ok(());
        }
        let (columns, whole) = (needed_columns::<R>(&expression), R::schema(ExtraColumns::ALL));
        let fields: Vec<_> = whole.fields().iter().filter(|field| columns.contains(field.name())).cloned().collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, whole.metadata().clone()));
        let read = |columns: &[String]| -> Result<Batches<'_>> {
            Ok(Box::new(self.batches(Some(columns)).map(|it| Ok(it?.1))))
        };
        let mut truths = table_mask(&expression, &schema, &read, &scratch.join("rows.parquet"))?.into_iter();
        self.keep.iter_mut().filter(|keep| **keep).for_each(|keep| *keep = truths.next().unwrap_or(false));
        Ok(())
    }
    /// Returns the selected rows as batches, each with its file; ends with the last selected row.
    pub fn batches<'f>(
        &'f self,
        columns: Option<&[String]>,
    ) -> impl Iterator<Item = Result<(&'f Path, RecordBatch)>> + use<'f, 'a, R> {
        let end = self.keep.iter().rposition(|keep| *keep).map_or(0, |last| last + 1);
        let mut batches = self.files.batches(columns);
        let mut first = 0;
        let next = move || {
            if first >= end {
                return None;
            }
            Some(batches.next()?.and_then(|(path, batch)| {
                let places = &self.keep[first..first + batch.num_rows()];
                first += batch.num_rows();
                Ok((path, kept_rows(&batch, places)?))
            }))
        };
        std::iter::from_fn(next).filter(|batch| !matches!(batch, Ok((_, batch)) if batch.num_rows() == 0))
    }
}

/// Returns the rows of a batch that are kept.
fn kept_rows(batch: &RecordBatch, keep: &[bool]) -> Result<RecordBatch> {
    if keep.iter().all(|keep| *keep) {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, &BooleanArray::from(keep.to_vec()))
        .map_err(|e| Error::bug(format!("rows cannot be selected: {e}")))
}
