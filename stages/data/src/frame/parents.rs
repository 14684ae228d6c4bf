//! Fills in `parents`: the ids of the rows from which a row was made.

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{Field, FieldRef, Schema};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_frames::sql::SOURCE_ID;

const PARENTS: &str = "parents";

/// Replaces the ids of source rows by the column `parents`: the id of the source where a row has another id.
pub fn with_parents(batch: &RecordBatch) -> Result<RecordBatch> {
    let Some(sources) = batch.column_by_name(SOURCE_ID) else { return Ok(batch.clone()) };
    let ids = batch.column_by_name("id").and_then(|ids| ids.as_string_opt::<i32>());
    let parents = match (sources.as_string_opt::<i32>(), ids) {
        (Some(sources), Some(ids)) => Some(parents(sources, ids)),
        // Ids of other types are not those of artifacts.
        _ => None,
    };
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let kept = fields.filter(|(field, _)| field.name() != SOURCE_ID);
    let columns = kept.map(|(field, column)| (field.clone(), column.clone()));
    built(columns.chain(parents.map(parents_column)).collect(), batch.num_rows())
}

/// Adds an empty `parents` to rows without that column.
pub fn with_empty_parents(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.column_by_name(PARENTS).is_some() {
        return Ok(batch);
    }
    let mut lists = ListBuilder::new(StringBuilder::new());
    (0..batch.num_rows()).for_each(|_| lists.append(true));
    let columns = batch.schema_ref().fields().iter().cloned().zip(batch.columns().iter().cloned());
    built(columns.chain([parents_column(Arc::new(lists.finish()))]).collect(), batch.num_rows())
}

fn parents(sources: &StringArray, ids: &StringArray) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for (source, id) in sources.iter().zip(ids.iter()) {
        if let Some(source) = source.filter(|source| id != Some(*source)) {
            lists.values().append_value(source);
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn parents_column(lists: ArrayRef) -> (FieldRef, ArrayRef) {
    (Arc::new(Field::new(PARENTS, lists.data_type().clone(), true)), lists)
}

fn built(columns: Vec<(FieldRef, ArrayRef)>, rows: usize) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| Error::bug(format!("rows with parents are no batch: {e}")))
}
