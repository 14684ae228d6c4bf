//! Evaluates filter expressions over batches: one boolean per row, as SQLite answers.

use crate::exchange::{batch_of, frame_of};
use crate::translate::{TranslationColumns, translate};
use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use polars::prelude::IntoLazy;
use trainyard_core::{Error, Result};
use trainyard_query::{ColumnFlattener, FilterExpression};

/// Batches of a table, in order.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

/// Evaluates an expression for each row of a table, which `read` reads: the named columns of all its rows. Null counts
/// as false. Returns `None` if a part of the expression, or the range of its integers in these rows, leaves it to
/// SQLite ([`FilterExpression::mask`]).
///
/// Errors: those of `read`.
pub fn mask<'a>(
    expression: &FilterExpression,
    schema: &Schema,
    read: &dyn Fn(&[String]) -> Result<Batches<'a>>,
) -> Result<Option<Vec<bool>>> {
    let names = expression.columns(schema);
    let kept: Vec<_> = names.iter().filter_map(|name| schema.index_of(name).ok()).collect();
    let schema = schema.project(&kept).map_err(|e| Error::bug(format!("a table has no such columns: {e}")))?;
    let flattener = ColumnFlattener::of_table(&schema, read)?;
    if !expression.is_condition_over(&flattener.columns())? {
        return Ok(None);
    }
    let mut mask = Vec::new();
    for batch in read(&names)? {
        let Some(part) = batch_mask(expression, &flattener.apply(&batch?)?)? else { return Ok(None) };
        mask.extend(part.iter().map(|truth| truth == Some(true)));
    }
    Ok(Some(mask))
}

/// Evaluates an expression over one batch of flat columns. Returns `None` if SQLite must answer.
fn batch_mask(expression: &FilterExpression, flat: &RecordBatch) -> Result<Option<BooleanArray>> {
    let mut columns = TranslationColumns::new(flat);
    let Some(condition) = translate(expression.condition(), &mut columns) else { return Ok(None) };
    let used = columns.into_used()?;
    if used.num_columns() == 0 {
        return Ok(None);
    }
    // SQLite answers if polars refuses.
    let Ok(result) = frame_of(&used)?.lazy().select([condition.alias("mask")]).collect() else { return Ok(None) };
    let result = batch_of(&result)?;
    let fits = result.num_rows() == flat.num_rows() && result.column(0).data_type() == &DataType::Boolean;
    Ok(fits.then(|| result.column(0).as_boolean().clone()))
}
