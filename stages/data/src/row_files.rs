//! Reads the rows of a stage's files batch by batch. Rows that cannot be read end the stage, or are left out.
//!
//! The memory is that of one batch (32 MiB of columns), whatever the number of rows.

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, UInt64Array};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::{
    BatchBounds, EpisodeStatus, GroupReader, StopReason, TableRow, byte_count, conform_rows, read_schema, row_count,
};

/// Unreadable rows whose errors are kept.
const NAMED_ROWS: usize = 10;

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

/// Rows that could not be read and are left out.
#[derive(Debug, Clone, Default)]
pub struct UnreadableRows {
    /// Number of rows.
    pub count: usize,
    /// Errors of the first rows, which name the file and the row.
    pub first: Vec<Error>,
}

/// Files with rows of one kind, in order.
pub struct RowFiles<'a, R> {
    files: &'a [PathBuf],
    bounds: BatchBounds,
    /// Rows that are left out, by index of the file and of the row.
    left_out: BTreeSet<(usize, usize)>,
    unreadable: UnreadableRows,
    /// Help of the error of an unreadable row.
    help: &'static str,
    row: PhantomData<R>,
}

impl<'a, R: TableRow> RowFiles<'a, R> {
    /// Takes files all of whose rows must be readable.
    pub fn strict(files: &'a [PathBuf]) -> Self {
        Self {
            files,
            bounds: BatchBounds::default(),
            left_out: BTreeSet::new(),
            unreadable: UnreadableRows::default(),
            help: "repair the row, and run the stage that made it again",
            row: PhantomData,
        }
    }
    /// Opens files; with [`RowErrorPolicy::Skip`] they are read once to find the rows that are left out.
    ///
    /// Errors: data (a file that is corrupt, or has other columns than the rows).
    pub fn open(files: &'a [PathBuf], policy: RowErrorPolicy) -> Result<Self> {
        let help = "repair the row, or set `on_error: skip`, which leaves such rows out";
        let mut opened = Self { help, ..Self::strict(files) };
        opened.check_columns()?;
        if policy == RowErrorPolicy::Skip {
            opened.find_unreadable()?;
        }
        Ok(opened)
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
    /// Returns the rows that are left out.
    pub fn unreadable(&self) -> &UnreadableRows {
        &self.unreadable
    }
    /// Returns the number of readable rows, from the footers.
    pub fn rows(&self) -> Result<usize> {
        let rows = self.files.iter().map(row_count).sum::<Result<u64>>()?;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX) - self.left_out.len())
    }
    /// Returns the number of rows that have about the bytes of one batch, from the footers.
    pub fn rows_of_a_batch(&self) -> Result<usize> {
        let bytes = self.files.iter().map(byte_count).sum::<Result<u64>>()?;
        Ok(self.bounds.rows_of(bytes, self.rows()? as u64))
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
    /// Returns all batches as [`RowFiles::each_batch`] passes them on, each with its file. Batches after an
    /// error are incomplete.
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
        let reader = GroupReader::open(file, columns.as_deref(), self.bounds)?;
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
        let kept = self.without_left_out(f, batch, &rows)?;
        readable_rows::<R>(file, &kept, columns).map_err(|error| {
            let fails = |rows: usize| {
                part(&kept, &(0..rows)).and_then(|part| readable_rows::<R>(file, &part, columns)).is_err()
            };
            match first_failing(kept.num_rows(), fails) {
                Some(row) => at_row(error, rows.start + row).help(self.help),
                None => error,
            }
        })
    }
    /// Returns a batch without the rows that are left out; `rows` are its rows in file `f`.
    fn without_left_out(&self, f: usize, batch: &RecordBatch, rows: &Range<usize>) -> Result<RecordBatch> {
        if self.left_out.range((f, rows.start)..(f, rows.end)).next().is_none() {
            return Ok(batch.clone());
        }
        let mask: BooleanArray = rows.clone().map(|row| Some(!self.left_out.contains(&(f, row)))).collect();
        filter_record_batch(batch, &mask).map_err(unselected)
    }
    fn find_unreadable(&mut self) -> Result<()> {
        for (f, file) in self.files.iter().enumerate() {
            let mut first = 0;
            for batch in GroupReader::open(file, None, self.bounds)? {
                let batch = batch?;
                each_unreadable::<R>(file, &batch, &mut |row, error| {
                    self.left_out.insert((f, first + row));
                    if self.unreadable.first.len() < NAMED_ROWS {
                        self.unreadable.first.push(at_row(error, first + row));
                    }
                })?;
                first += batch.num_rows();
            }
        }
        self.unreadable.count = self.left_out.len();
        Ok(())
    }
}

type FileBatches<'f> = Box<dyn Iterator<Item = Result<(&'f Path, RecordBatch)>> + 'f>;

/// Returns the columns of a batch as those of the rows. Errors: data, naming the file and the column.
fn readable_rows<R: TableRow>(file: &Path, batch: &RecordBatch, columns: Option<&[String]>) -> Result<RecordBatch> {
    let rows = conform_rows::<R>(file, batch, columns)?;
    check_words::<EpisodeStatus>(file, &rows, "status")?;
    check_words::<StopReason>(file, &rows, "stop_reason")?;
    Ok(rows)
}

/// Checks that the texts of a column, if the batch has it, are words of a closed set. Errors: data.
fn check_words<T: DeserializeOwned>(file: &Path, rows: &RecordBatch, name: &str) -> Result<()> {
    let Some(texts) = rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>()) else {
        return Ok(());
    };
    let words: BTreeSet<&str> = texts.iter().flatten().collect();
    for word in words {
        serde_json::from_value::<T>(Value::String(word.to_string()))
            .map_err(|e| Error::data(format!("{}: column `{name}`: {e}", file.display())))?;
    }
    Ok(())
}

/// Passes on the rows of a batch that cannot be read, in order, each with its error.
fn each_unreadable<R: TableRow>(file: &Path, batch: &RecordBatch, found: &mut impl FnMut(usize, Error)) -> Result<()> {
    let mut spans: Vec<Range<usize>> = std::iter::once(0..batch.num_rows()).collect();
    while let Some(span) = spans.pop() {
        match readable_rows::<R>(file, &part(batch, &span)?, None) {
            Ok(_) => {}
            Err(e) if span.len() <= 1 => found(span.start, e),
            Err(_) => {
                let middle = usize::midpoint(span.start, span.end);
                spans.extend([middle..span.end, span.start..middle]);
            }
        }
    }
    Ok(())
}

/// Returns the first of `rows` rows with which they fail, if `fails` does with all of them; `None` if it fails without
/// a row.
pub fn first_failing(rows: usize, mut fails: impl FnMut(usize) -> bool) -> Option<usize> {
    if rows == 0 || fails(0) {
        return None;
    }
    let (mut good, mut bad) = (0, rows);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if fails(middle) { bad = middle } else { good = middle }
    }
    Some(bad - 1)
}

/// Rows are counted from 1.
fn at_row(error: Error, row: usize) -> Error {
    error.at(format!("row {}", row + 1))
}

/// Copies some rows of a batch, so that their lists have no items of other rows.
fn part(batch: &RecordBatch, rows: &Range<usize>) -> Result<RecordBatch> {
    if rows.len() == batch.num_rows() {
        return Ok(batch.clone());
    }
    take_record_batch(batch, &UInt64Array::from_iter_values(rows.start as u64..rows.end as u64)).map_err(unselected)
}

fn unselected(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("rows cannot be selected: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::StringBuilder;
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

        let skipping = RowFiles::<Trajectory>::open(&files, RowErrorPolicy::Skip).unwrap();
        let UnreadableRows { count, first } = skipping.unreadable();
        let errors: Vec<String> = first.iter().map(ToString::to_string).collect();
        assert!(*count == 3 && errors.len() == 3);
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
        let path = folder.path().join("other.parquet");
        trainyard_tables::TableBuilder::new().i64("n", 0..3).write(&path).unwrap();
        let files = [file(folder.path(), &[]), path];
        for policy in [RowErrorPolicy::Fail, RowErrorPolicy::Skip] {
            let error = RowFiles::<Trajectory>::open(&files, policy).err().unwrap();
            let is_named = error.message.contains("other.parquet: column `id` of type Utf8 is missing");
            assert!(is_named && !error.message.contains("row "), "{error}");
        }
    }
}
