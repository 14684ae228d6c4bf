//! Converts Arrow batches to polars frames and back.

use crate::c_interface::{to_arrow, to_polars};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, FieldRef, Schema};
use polars::error::PolarsError;
use polars::prelude::{Column, CompatLevel, DataFrame, Series};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Converts a batch to a frame of one chunk. Buffers are shared. Errors: data (a column of a type that frames lack).
pub fn frame_of(batch: &RecordBatch) -> Result<DataFrame> {
    let schema = batch.schema_ref();
    let column = |(field, array): (&FieldRef, &ArrayRef)| {
        let series = to_polars(array).and_then(|array| Series::from_arrow(field.name().into(), array));
        series.map(Column::from).map_err(|e| unusable(&format!("column `{}`", field.name()), &e))
    };
    let columns = schema.fields().iter().zip(batch.columns()).map(column).collect::<Result<Vec<_>>>()?;
    DataFrame::new(batch.num_rows(), columns).map_err(|e| unusable("a batch", &e))
}

/// Converts a frame to a batch. Text and lists get 64-bit offsets. Errors: data (a column of a type that tables lack).
pub fn batch_of(frame: &DataFrame) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for column in frame.columns() {
        let name = column.name().to_string();
        let array = column.as_materialized_series().rechunk().to_arrow(0, CompatLevel::oldest());
        let array = to_arrow(array).map_err(|e| Error::data(format!("column `{name}` has no Arrow form: {e}")))?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(frame.height()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| Error::bug(format!("a frame is no batch: {e}")))
}

fn unusable(what: &str, error: &PolarsError) -> Error {
    Error::data(format!("{what} cannot become a frame: {error}"))
}
