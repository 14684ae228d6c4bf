//! Checks that a result has the columns of its kind, and writes it batch by batch.

use super::config::FrameOutput;
use super::parents::{with_empty_parents, with_parents};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use std::path::Path;
use trainyard_core::suggest::nearest;
use trainyard_core::{Error, Result};
use trainyard_frames::sql::{FrameResult, SOURCE_ID};
use trainyard_tables::{BatchWriter, ExtraColumns, Problem, TableRow, TableRowWriter, Trajectory, conform_rows};

/// File in errors about rows of a result.
const RESULT: &str = "result of `sql`";

/// Rows of a result that has the columns of its kind.
pub struct OutputRows {
    rows: FrameResult,
    kind: FrameOutput,
}

impl OutputRows {
    /// Takes a result. Errors: invalid, naming the columns (missing, unknown, of another type), data (a number outside
    /// the range of its column).
    pub fn new(rows: FrameResult, kind: FrameOutput) -> Result<Self> {
        if rows.columns().next().is_none() {
            return Err(
                Error::invalid("`sql` selects no columns").help("name the columns after `select`, or write `*`")
            );
        }
        let rows = match kind {
            FrameOutput::Table => {
                rows.schema()?;
                rows
            }
            FrameOutput::Problems => checked(&rows, kind, &Problem::schema(ExtraColumns::ALL))?,
            FrameOutput::Trajectories => checked(&rows, kind, &Trajectory::schema(ExtraColumns::ALL))?,
        };
        Ok(Self { rows, kind })
    }
    /// Writes the rows. Returns their number. Errors: data (a null in a required column), retryable (disk full).
    pub fn write(&self, path: &Path) -> Result<u64> {
        match self.kind {
            FrameOutput::Table => self.write_table(path),
            FrameOutput::Problems => self.write_rows::<Problem>(path),
            FrameOutput::Trajectories => self.write_rows::<Trajectory>(path),
        }
    }

    fn write_table(&self, path: &Path) -> Result<u64> {
        let empty = with_parents(&RecordBatch::new_empty(self.rows.schema()?))?;
        let mut writer = BatchWriter::create(path, empty.schema())?;
        for batch in self.rows.batches() {
            writer.write(&with_parents(&batch?)?)?;
        }
        writer.finish()
    }

    fn write_rows<R: TableRow>(&self, path: &Path) -> Result<u64> {
        let mut writer = TableRowWriter::<R>::create(path)?;
        let needs_parents = R::schema(ExtraColumns::ALL).column_with_name("parents").is_some();
        for batch in self.rows.batches() {
            let batch = with_parents(&batch?)?;
            let batch = if needs_parents { with_empty_parents(batch)? } else { batch };
            let rows = conform_rows::<R>(Path::new(RESULT), &batch, None);
            writer.write_batch(
                &rows.map_err(|e| e.help("leave such rows out by `where`, or replace nulls by `coalesce`"))?,
            )?;
        }
        writer.finish()
    }
}

/// Checks the columns of a result against those of its kind, and converts its numbers.
fn checked(rows: &FrameResult, kind: FrameOutput, schema: &SchemaRef) -> Result<FrameResult> {
    let own: Vec<&str> = rows.columns().filter(|name| *name != SOURCE_ID).collect();
    let known = || schema.fields().iter().map(|field| field.name().as_str());
    if let Some(name) = own.iter().find(|name| known().all(|known| known != **name)) {
        let near = nearest(name, known()).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        return Err(Error::invalid(format!("{} have no column `{name}`", kind.port()))
            .help(format!("{near}leave it out of the SELECT, or set `output: table`")));
    }
    // The stage fills in the parents.
    let is_missing =
        |field: &&Field| !field.is_nullable() && field.name() != "parents" && !own.contains(&field.name().as_str());
    let missing: Vec<&Field> = schema.fields().iter().map(AsRef::as_ref).filter(is_missing).collect();
    if let Some(first) = missing.first() {
        let names: Vec<String> = missing.iter().map(|field| format!("`{}`", field.name())).collect();
        let lacks = format!("{} need the column {}, which `sql` does not select", kind.port(), names.join(", "));
        return Err(Error::invalid(lacks).help(format!("add {} to the SELECT", example(first))));
    }
    rows.typed(schema)
}

/// Returns an example of an item of a SELECT that makes a column.
fn example(field: &Field) -> String {
    let name = field.name();
    match field.data_type() {
        DataType::Utf8 => format!("`{name}` of a table, or for example `'' as {name}`"),
        DataType::UInt32 | DataType::UInt64 => format!("`{name}` of a table, or for example `0 as {name}`"),
        DataType::Float64 => format!("`{name}` of a table, or for example `0.0 as {name}`"),
        _ => format!("`{name}` of a table that has it"),
    }
}
