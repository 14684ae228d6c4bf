//! Holds the rows that a rule judges at once, as columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{BooleanArray, RecordBatch, StringArray};
use arrow_select::filter::filter_record_batch;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use trainyard_core::{Error, Result};
use trainyard_tables::{ExtraColumns, MessageColumns, TableRow, Trajectory, conform_rows, decode_part, encode_rows};

/// Some columns of trajectories: those that the rule reads, and `id`.
pub struct RuleRows {
    path: PathBuf,
    batch: RecordBatch,
    decoded: OnceCell<Vec<Trajectory>>,
}

impl RuleRows {
    /// Takes rows that [`conform_rows`] returned. Errors name the file `path`.
    pub fn new(path: &Path, batch: RecordBatch) -> Self {
        Self { path: path.to_path_buf(), batch, decoded: OnceCell::new() }
    }
    /// Encodes rows. Errors: bug.
    pub fn of(rows: &[&Trajectory]) -> Result<Self> {
        let path = Path::new("rows in memory");
        let extra = ExtraColumns::ALL;
        let batch = encode_rows(rows, &Trajectory::schema(extra), extra)?;
        Ok(Self::new(path, conform_rows::<Trajectory>(path, &batch, None)?))
    }
    /// Returns the file of the rows, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the columns.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }
    /// Returns the ids of the rows.
    pub fn ids(&self) -> Result<&StringArray> {
        self.texts("id")
    }
    /// Returns a column of texts. Errors: bug (a column that the rule does not read).
    pub fn texts(&self, name: &str) -> Result<&StringArray> {
        let column = self.batch.column_by_name(name).and_then(|column| column.as_string_opt());
        column.ok_or_else(|| Error::bug(format!("a rule reads `{name}`, which is not among its columns")))
    }
    /// Returns a column of numbers: of 64-bit floats, or of unsigned integers of 32 bits. Errors: bug (a column that
    /// the rule does not read).
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        let column = self.batch.column_by_name(name);
        let floats = column.and_then(|column| column.as_primitive_opt::<Float64Type>());
        let integers = column.and_then(|column| column.as_primitive_opt::<UInt32Type>());
        let integers = integers.map(|numbers| numbers.values().iter().map(|number| f64::from(*number)).collect());
        let numbers = floats.map(|numbers| numbers.values().to_vec()).or(integers);
        numbers
            .ok_or_else(|| Error::bug(format!("a rule reads numbers from `{name}`, which is not a column of numbers")))
    }
    /// Returns the same rows with these columns and `id`, as far as they are present. Errors: bug.
    pub fn part(&self, names: &[&str]) -> Result<Self> {
        let fields = self.batch.schema_ref().fields().iter().enumerate();
        let wanted = |name: &str| name == "id" || names.contains(&name);
        let places: Vec<usize> = fields.filter(|(_, field)| wanted(field.name())).map(|(i, _)| i).collect();
        let batch = self.batch.project(&places).map_err(|e| Error::bug(format!("a batch lacks a column: {e}")))?;
        Ok(Self::new(&self.path, batch))
    }
    /// Returns the messages of the rows. Errors: bug (a column that the rule does not read).
    pub fn messages(&self) -> Result<MessageColumns<'_>> {
        MessageColumns::of(&self.batch)
    }
    /// Returns the rows of a mask as structs; other columns than those of the rule have defaults.
    ///
    /// Errors: data (a word that is not known).
    pub fn selected(&self, mask: &BooleanArray) -> Result<Vec<Trajectory>> {
        if mask.true_count() == 0 {
            return Ok(Vec::new());
        }
        let rows = filter_record_batch(&self.batch, mask);
        let rows = rows.map_err(|e| Error::bug(format!("rows cannot be selected: {e}")))?;
        decode_part(&self.path, &rows)
    }
    /// Returns the rows as structs; other columns than those of the rule have defaults.
    ///
    /// Errors: data (a word that is not known).
    pub fn trajectories(&self) -> Result<&[Trajectory]> {
        if let Some(rows) = self.decoded.get() {
            return Ok(rows);
        }
        let rows = decode_part(&self.path, &self.batch)?;
        Ok(self.decoded.get_or_init(|| rows))
    }
}
