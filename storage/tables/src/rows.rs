//! Reads and writes typed rows in Parquet files: complete files, and streams for tables larger than memory.

use crate::decode::BatchColumns;
use crate::extra::ExtraColumns;
use crate::file::{BatchWriter, ROW_GROUP};
use crate::groups::{BatchBounds, GroupReader};
use crate::schema::{conform, exact_column, widen_batch};
use crate::{Problem, Trajectory};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Rows turned into one Arrow batch, or read from one, at a time.
const ROWS: usize = 1024;

/// A struct that has an Arrow form. Implemented by [`Problem`], [`Trajectory`] and [`crate::TokenPack`].
pub trait TableRow: Sized {
    /// Rows of a row group.
    const GROUP: usize = ROW_GROUP;

    /// Returns the additional columns that these rows use.
    fn extra(rows: &[&Self]) -> ExtraColumns;
    /// Returns the Arrow schema with some additional columns.
    fn schema(extra: ExtraColumns) -> SchemaRef;
    /// Encodes one column of the schema; `extra` includes at least the columns that the rows use. `None` for another
    /// name.
    fn encode_column(rows: &[&Self], name: &str, extra: ExtraColumns) -> Option<ArrayRef>;
    /// Decodes rows from columns.
    fn decode(columns: &BatchColumns<'_>) -> Result<Vec<Self>>;
}

/// Writes typed rows as they come. The file has the additional columns that any of its rows uses: at the first row that
/// needs another one, the rows before it are copied into a wider file.
pub struct TableRowWriter<R> {
    path: PathBuf,
    file: BatchWriter,
    extra: ExtraColumns,
    row: PhantomData<R>,
}

impl<R: TableRow> TableRowWriter<R> {
    /// Creates the file. Errors: invalid (no such folder), retryable (disk full).
    pub fn create(path: &Path) -> Result<Self> {
        let extra = ExtraColumns::default();
        let file = BatchWriter::create_grouped(path, R::schema(extra), R::GROUP)?;
        Ok(Self { path: path.to_path_buf(), file, extra, row: PhantomData })
    }
    /// Appends rows. Errors: retryable (disk full).
    pub fn write(&mut self, rows: &[R]) -> Result<()> {
        rows.chunks(ROWS).try_for_each(|piece| self.write_piece(&piece.iter().collect::<Vec<_>>()))
    }
    /// Appends rows in the form that [`conform_rows`] returns. Errors: retryable (disk full).
    pub fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let needed = self.extra.union(ExtraColumns::of_batch(batch));
        if needed != self.extra {
            self.widen(needed)?;
        }
        self.file.write(&widen_batch(batch, &R::schema(needed))?)
    }
    /// Writes the footer, without which the file cannot be read. Returns the number of rows.
    pub fn finish(self) -> Result<u64> {
        self.file.finish()
    }

    fn write_piece(&mut self, rows: &[&R]) -> Result<()> {
        let needed = self.extra.union(R::extra(rows));
        if needed != self.extra {
            self.widen(needed)?;
        }
        self.file.write(&encode_rows(rows, &R::schema(needed), needed)?)
    }
    /// Starts the file again with more columns, and copies the rows so far.
    fn widen(&mut self, extra: ExtraColumns) -> Result<()> {
        let narrow = self.path.with_extension("narrow");
        std::fs::rename(&self.path, &narrow).map_err(|e| io_error(&self.path, &e))?;
        let schema = R::schema(extra);
        let wide = BatchWriter::create_grouped(&self.path, schema.clone(), R::GROUP)?;
        std::mem::replace(&mut self.file, wide).finish()?;
        for batch in GroupReader::open(&narrow, None, BatchBounds::default())? {
            self.file.write(&widen_batch(&batch?, &schema)?)?;
        }
        self.extra = extra;
        std::fs::remove_file(&narrow).map_err(|e| io_error(&narrow, &e))
    }
}

/// Encodes rows as a batch of a schema, which has some or all columns of [`TableRow::schema`].
///
/// Errors: bug (a column of another schema).
pub fn encode_rows<R: TableRow>(rows: &[&R], schema: &SchemaRef, extra: ExtraColumns) -> Result<RecordBatch> {
    let column = |field: &FieldRef| {
        R::encode_column(rows, field.name(), extra)
            .ok_or_else(|| Error::bug(format!("rows have no column `{}`", field.name())))
    };
    let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::bug(format!("rows do not fit their schema: {e}")))
}

/// Encodes the named columns of rows, in the schema's order. Unknown names are ignored.
///
/// Errors: bug (columns of different lengths).
pub fn encode_columns<R: TableRow>(rows: &[&R], columns: &[String], extra: ExtraColumns) -> Result<RecordBatch> {
    let whole = R::schema(extra);
    let fields = whole.fields().iter().filter(|field| columns.contains(field.name()));
    let part = Schema::new_with_metadata(fields.cloned().collect::<Vec<_>>(), whole.metadata().clone());
    encode_rows(rows, &Arc::new(part), extra)
}

/// Converts a batch of a file to the schema of its rows: all columns with the additional ones, or those that are named.
/// Missing nullable columns and fields are null, unexpected ones are left out.
///
/// Errors: data, naming the file and the column (another type, a missing column, nulls in a required column).
pub fn conform_rows<R: TableRow>(path: &Path, batch: &RecordBatch, columns: Option<&[String]>) -> Result<RecordBatch> {
    let whole = R::schema(ExtraColumns::ALL);
    let wanted = |field: &&FieldRef| columns.is_none_or(|columns| columns.contains(field.name()));
    let fields: Vec<FieldRef> = whole.fields().iter().filter(wanted).cloned().collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, whole.metadata().clone()));
    let places = conform(path, batch.schema_ref(), &schema)?;
    let column = |(field, place): (&FieldRef, Option<usize>)| {
        let Some(i) = place else { return Ok(new_null_array(field.data_type(), batch.num_rows())) };
        let nulls = batch.column(i).null_count();
        if nulls > 0 && !field.is_nullable() {
            let nulls = format!("{nulls} nulls, but every row must have a value");
            return Err(Error::data(format!("{}: column `{}` has {nulls}", path.display(), field.name())));
        }
        exact_column(batch.column(i), field.data_type())
            .map_err(|e| Error::data(format!("{}: column `{}`: {e}", path.display(), field.name())))
    };
    let columns = schema.fields().iter().zip(places).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::data(format!("{}: {e}", path.display())))
}

/// Decodes rows from some of their columns; what the other columns hold has its default.
///
/// Errors: data, naming the file `path` (a word that is not known).
pub fn decode_part<R: TableRow>(path: &Path, batch: &RecordBatch) -> Result<Vec<R>> {
    R::decode(&BatchColumns::part(path, batch, &R::schema(ExtraColumns::ALL))?)
}

/// Reads typed rows batch by batch. The memory is that of the rows of one batch, however large its rows are.
pub struct TableRowReader<R> {
    file: GroupReader,
    row: PhantomData<R>,
}

impl<R: TableRow> TableRowReader<R> {
    /// Opens a file. Errors: invalid (no such file), data (corrupt, truncated, or with another schema).
    pub fn open(path: &Path) -> Result<Self> {
        let file = GroupReader::open(path, None, BatchBounds { rows: ROWS, ..BatchBounds::default() })?;
        conform(path, &file.schema(), &R::schema(ExtraColumns::ALL))?;
        Ok(Self { file, row: PhantomData })
    }
    /// Returns the number of rows in the file.
    pub fn rows(&self) -> u64 {
        self.file.rows()
    }
}

impl<R: TableRow> Iterator for TableRowReader<R> {
    /// At most a thousand rows.
    type Item = Result<Vec<R>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.file.next()?;
        let path = self.file.path();
        Some(batch.and_then(|batch| R::decode(&BatchColumns::new(path, &batch, &R::schema(ExtraColumns::ALL))?)))
    }
}

/// Writes rows as one Parquet file; equal rows give equal bytes. Returns the number of rows.
pub fn write_rows<R: TableRow>(path: &Path, rows: &[R]) -> Result<u64> {
    let mut writer = TableRowWriter::create(path)?;
    writer.write(rows)?;
    writer.finish()
}

/// Reads all rows of a file.
pub fn read_rows<R: TableRow>(path: &Path) -> Result<Vec<R>> {
    let reader = TableRowReader::open(path)?;
    let mut rows = Vec::with_capacity(usize::try_from(reader.rows()).unwrap_or(0).min(1 << 20));
    for batch in reader {
        rows.extend(batch?);
    }
    Ok(rows)
}

/// Calls [`write_rows`] for a `problems` artifact.
pub fn write_problems(path: &Path, rows: &[Problem]) -> Result<u64> {
    write_rows(path, rows)
}

/// Calls [`read_rows`] for a `problems` artifact.
pub fn read_problems(path: &Path) -> Result<Vec<Problem>> {
    read_rows(path)
}

/// Calls [`write_rows`] for a `trajectories` artifact.
pub fn write_trajectories(path: &Path, rows: &[Trajectory]) -> Result<u64> {
    write_rows(path, rows)
}

/// Calls [`read_rows`] for a `trajectories` artifact.
pub fn read_trajectories(path: &Path) -> Result<Vec<Trajectory>> {
    read_rows(path)
}
