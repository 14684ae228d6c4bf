//! Finds the columns of an expression in a batch, and brings them into the types of SQLite.

use super::value::{Kind, TypedExpr};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use polars::prelude::{DataType as PolarsType, col};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// The flat columns of a batch, and those that an expression has named.
pub(crate) struct TranslationColumns<'a> {
    flat: &'a RecordBatch,
    used: Vec<(String, ArrayRef)>,
}

impl<'a> TranslationColumns<'a> {
    pub fn new(flat: &'a RecordBatch) -> Self {
        Self { flat, used: Vec::new() }
    }
    /// Names the first column if no other is named, because a frame without columns has no rows.
    pub fn name_one(&mut self) -> Option<()> {
        if self.used.is_empty() {
            let first = self.flat.schema_ref().fields().iter().map(|field| field.name().clone()).next()?;
            self.column(&first)?;
        }
        Some(())
    }
    /// Returns the named columns as a batch.
    pub fn into_used(self) -> Result<RecordBatch> {
        let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let schema = Schema::new(self.used.iter().map(field).collect::<Vec<_>>());
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.flat.num_rows()));
        let arrays = self.used.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
            .map_err(|e| Error::bug(format!("columns are no batch: {e}")))
    }
    /// Returns a column by its name, in any case of letters.
    pub fn column(&mut self, name: &str) -> Option<TypedExpr> {
        let fields = self.flat.schema_ref().fields();
        let place = fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))?;
        let (kind, array) = converted(self.flat.column(place))?;
        let name = fields[place].name();
        if !self.used.iter().any(|(used, _)| used == name) {
            self.used.push((name.clone(), array));
        }
        // Names of the form `^…$` are patterns to `col`.
        let is_pattern = name.starts_with('^') && name.ends_with('$') || name == "*";
        let column = (!is_pattern).then(|| col(name.as_str()))?;
        Some(match kind {
            Kind::Int(_) => TypedExpr::new(kind, column.cast(PolarsType::Int64)),
            _ => TypedExpr::new(kind, column),
        })
    }
}

/// Returns the type of a column, and the cells that SQLite sees: floats that are not finite are null there, and a
/// 32-bit float is the 64-bit float of the same text.
fn converted(array: &ArrayRef) -> Option<(Kind, ArrayRef)> {
    let small = |bits: u32| Some((Kind::Int(1 << bits), array.clone()));
    match array.data_type() {
        DataType::Boolean => Some((Kind::Bool, array.clone())),
        DataType::Int8 => small(7),
        DataType::UInt8 => small(8),
        DataType::Int16 => small(15),
        DataType::UInt16 => small(16),
        DataType::Int32 => small(31),
        DataType::UInt32 => small(32),
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>();
            let bound = numbers.iter().flatten().map(i64::unsigned_abs).max().unwrap_or(0);
            Some((Kind::Int(bound), array.clone()))
        }
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>().iter();
            let same_text = |value: f32| value.to_string().parse::<f64>().ok().filter(|value| value.is_finite());
            let numbers: Float64Array = numbers.map(|value| value.and_then(same_text)).collect();
            Some((Kind::Float, Arc::new(numbers)))
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            if numbers.iter().flatten().all(f64::is_finite) {
                return Some((Kind::Float, array.clone()));
            }
            let numbers: Float64Array = numbers.iter().map(|value| value.filter(|value| value.is_finite())).collect();
            Some((Kind::Float, Arc::new(numbers)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some((Kind::Text, array.clone())),
        DataType::List(_) | DataType::LargeList(_) => Some((Kind::List, array.clone())),
        _ => None,
    }
}
