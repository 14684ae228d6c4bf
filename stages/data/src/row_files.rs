//! Reads the rows of a stage's files batch by batch. Rows that cannot be read end the stage, or are left out.
//!
//! The memory is that of one batch (32 MiB of columns), whatever the number of rows.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchBounds, GroupReader, TableRow, byte_count, conform_rows, read_schema, row_count};

/// Effect of a row that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RowErrorPolicy {
    /// Ends the stage with an error that names the file and the row.
    #[default]
    Fail,
    /// Leaves the row out of all outputs; the report names it.
    Skip,
}

/// Files with rows of one kind, in order.
pub struct RowFiles<'a, R> {
    files: &'a [PathBuf],
    /// Rows that are left out, with the reason, by index of the file and of the row.
    unreadable: BTreeMap<(usize, usize), Error>,
    /// Help of the error of an unreadable row.
    help: &'static str,
    row: PhantomData<R>,
}

impl<'a, R: TableRow> RowFiles<'a, R> {
    /// Takes files all of whose rows must be readable.
    pub fn strict(files: &'a [PathBuf]) -> Self {
        let help = "repair the row, and run the stage that made it again";
        Self { files, unreadable: BTreeMap::new(), help, row: PhantomData }
    }
    /// Replaces the help of the error of an unreadable row.
    #[must_use]
    pub fn with_help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }
    /// Compares the columns of all files with those of the rows, before any row is read.
    ///
    /// Errors: data, naming the file and the column.
    pub fn check_columns(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| {
            let empty = RecordBatch::new_empty(read_schema(file)?);
            conform_rows::<R>(file, &empty, None).map(drop)
        })
    }
    /// Takes files whose unreadable rows are left out. Reads them once.
    ///
    /// Errors: data (a file that is corrupt, or has other columns than the rows).
    pub fn skipping(files: &'a [PathBuf]) -> Result<Self> {
        let mut unreadable = BTreeMap::new();
        for (f, file) in files.iter().enumerate() {
            let mut first = 0;
            for batch in GroupReader::open(file, None, BatchBounds::default())? {
                let batch = batch?;
                for (row, error) in unreadable_rows::<R>(file, &batch)? {
                    unreadable.insert((f, first + row), error);
                }
                first += batch.num_rows();
            }
        }
        Ok(Self { unreadable, ..Self::strict(files) })
    }
    /// Returns the errors of the rows that are left out; they name the file and the row.
    pub fn unreadable(&self) -> impl ExactSizeIterator<Item = &Error> {
        self.unreadable.values()
    }
    /// Returns the number of readable rows, from the footers.
    pub fn rows(&self) -> Result<usize> {
        let rows = self.files.iter().map(|file| row_count(file)).sum::<Result<u64>>()?;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX) - self.unreadable.len())
    }
    /// Returns the number of rows that have about the bytes of one batch, from the footers.
    pub fn rows_of_a_batch(&self) -> Result<usize> {
        let bytes = self.files.iter().map(|file| byte_count(file)).sum::<Result<u64>>()?;
        Ok(BatchBounds::default().rows_of(bytes, self.rows()? as u64))
    }
    /// Passes all batches on, with all columns of the rows or the named ones.
    ///
    /// Errors: those of `at`; data, naming the file and the row (nulls in a required column, another type).
    pub fn each_batch(
        &self,
        columns: Option<&[String]>,
        mut at: impl FnMut(&Path, &RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.batches(columns).try_for_each(|batch| {
            let (file, batch) = batch?;
            at(file, &batch)
        })
    }
    /// Returns all batches as [`RowFiles::each_batch`] passes them on, each with its file. Nothing follows an error that
    /// a caller could use.
    pub fn batches<'f>(
        &'f self,
        columns: Option<&[String]>,
    ) -> impl Iterator<Item = Result<(&'f Path, RecordBatch)>> + use<'f, 'a, R> {
        let columns: Option<Arc<[String]>> = columns.map(Arc::from);
        let files = self.files.iter().enumerate();
        files.flat_map(move |(f, file)| match self.batches_of(f, file, columns.clone()) {
            Ok(batches) => batches,
            Err(e) => Box::new(std::iter::once(Err(e))) as FileBatches<'f>,
        })
    }

    fn batches_of<'f>(&'f self, f: usize, file: &'f Path, columns: Option<Arc<[String]>>) -> Result<FileBatches<'f>> {
        let reader = GroupReader::open(file, columns.as_deref(), BatchBounds::default())?;
        let mut first = 0;
        Ok(Box::new(reader.map(move |batch| {
            let batch = batch?;
            let rows = first..first + batch.num_rows();
            first = rows.end;
            Ok((file, self.readable(f, &batch, rows, columns.as_deref())?))
        })))
    }
    /// Returns the readable rows of a batch with the columns of the rows.
    fn readable(
        &self,
        f: usize,
        batch: &RecordBatch,
        rows: Range<usize>,
        columns: Option<&[String]>,
    ) -> Result<RecordBatch> {
        let file = &self.files[f];
        let is_readable = |row| !self.unreadable.contains_key(&(f, row));
        let kept = if self.unreadable.range((f, rows.start)..(f, rows.end)).next().is_some() {
            selected(batch, rows.clone().map(is_readable))?
        } else {
            batch.clone()
        };
        let conformed = conform_rows::<R>(file, &kept, columns);
        conformed.map_err(|e| located::<R>(e, (file, &kept), columns, rows.start, self.help))
    }
}

type FileBatches<'f> = Box<dyn Iterator<Item = Result<(&'f Path, RecordBatch)>> + 'f>;

/// Returns the rows of a batch that cannot be read as `R`, each with its error.
///
/// Errors: the file has other columns.
fn unreadable_rows<R: TableRow>(file: &Path, batch: &RecordBatch) -> Result<Vec<(usize, Error)>> {
    conform_rows::<R>(file, &batch.slice(0, 0), None)?;
    let mut found = Vec::new();
    let mut spans: Vec<Range<usize>> = std::iter::once(0..batch.num_rows()).collect();
    while let Some(span) = spans.pop() {
        let rows = selected(batch, (0..batch.num_rows()).map(|row| span.contains(&row)))?;
        match conform_rows::<R>(file, &rows, None) {
            Ok(_) => {}
            Err(e) if span.len() == 1 => found.push((span.start, at_row(e, span.start))),
            Err(_) => {
                let middle = usize::midpoint(span.start, span.end);
                spans.extend([span.start..middle, middle..span.end]);
            }
        }
    }
    Ok(found)
}

/// Adds the first row that is not readable to an error of a batch, if its file has the right columns.
fn located<R: TableRow>(
    error: Error,
    (file, batch): (&Path, &RecordBatch),
    columns: Option<&[String]>,
    first: usize,
    help: &str,
) -> Error {
    let fails = |rows: usize| {
        let part = selected(batch, (0..batch.num_rows()).map(|row| row < rows));
        part.and_then(|part| conform_rows::<R>(file, &part, columns)).is_err()
    };
    if fails(0) {
        return error;
    }
    let (mut good, mut bad) = (0, batch.num_rows());
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if fails(middle) { bad = middle } else { good = middle }
    }
    at_row(error, first + bad - 1).help(help)
}

/// Rows are counted from 1.
fn at_row(error: Error, row: usize) -> Error {
    error.at(format!("row {}", row + 1))
}

fn selected(batch: &RecordBatch, keep: impl Iterator<Item = bool>) -> Result<RecordBatch> {
    let mask: BooleanArray = keep.map(Some).collect();
    filter_record_batch(batch, &mask).map_err(|e| Error::bug(format!("rows cannot be selected: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::StringBuilder;
    use std::sync::Arc;
    use trainyard_tables::{Message, Trajectory, read_batches, write_batches, write_trajectories};

    /// Writes 40 rows, of which some have no environment, and returns their file.
    fn file(folder: &Path, without: &[usize]) -> PathBuf {
        let row = |i: usize| Trajectory {
            id: format!("r{i}"),
            messages: vec![Message::new("user", format!("question {i}"))],
            ..Trajectory::default()
        };
        let path = folder.join("data.parquet");
        write_trajectories(&path, &(0..40).map(row).collect::<Vec<_>>()).unwrap();
        let (schema, batches) = read_batches(&path).unwrap();
        let place = schema.index_of("environment").unwrap();
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields[place] = Arc::new(fields[place].as_ref().clone().with_nullable(true));
        let schema = Arc::new(arrow_schema::Schema::new_with_metadata(fields, schema.metadata().clone()));
        let mut texts = StringBuilder::new();
        (0..40).for_each(|i| texts.append_option((!without.contains(&i)).then_some("e")));
        let mut columns = batches[0].columns().to_vec();
        columns[place] = Arc::new(texts.finish());
        write_batches(&path, schema.clone(), &[RecordBatch::try_new(schema, columns).unwrap()]).unwrap();
        path
    }

    #[test]
    fn unreadable_rows_are_named_or_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let files = [file(folder.path(), &[7, 8, 39])];
        let error = RowFiles::<Trajectory>::strict(&files).each_batch(None, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("row 8") && error.contains("`environment` has 3 nulls"), "{error}");
        // Columns that are not read may have anything.
        RowFiles::<Trajectory>::strict(&files).each_batch(Some(&["id".to_string()]), |_, _| Ok(())).unwrap();

        let skipping = RowFiles::<Trajectory>::skipping(&files).unwrap();
        let errors: Vec<String> = skipping.unreadable().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 3);
        for (error, row) in errors.iter().zip(["row 8", "row 9", "row 40"]) {
            assert!(error.contains(row) && error.contains("data.parquet"), "{error}");
        }
        for columns in [None, Some(["id".to_string()])] {
            let mut rows = 0;
            let count = |_: &Path, batch: &RecordBatch| {
                rows += batch.num_rows();
                Ok(())
            };
            skipping.each_batch(columns.as_ref().map(|names: &[String; 1]| names.as_slice()), count).unwrap();
            assert_eq!(rows, 37);
        }
    }

    #[test]
    fn files_with_other_columns_are_refused_in_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        trainyard_tables::TableBuilder::new().i64("n", 0..3).write(&path).unwrap();
        let files = [path];
        let strict = RowFiles::<Trajectory>::strict(&files).each_batch(None, |_, _| Ok(())).unwrap_err();
        assert!(strict.message.contains("is missing") && !strict.to_string().contains("row "), "{strict}");
        assert!(RowFiles::<Trajectory>::skipping(&files).err().unwrap().message.contains("is missing"));
    }
}
