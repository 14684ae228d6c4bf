//! Converts columns of frames to the types of tables: text and lists have 32-bit offsets there.

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, LargeListArray, LargeStringArray, ListArray, StringArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Converts a column.
///
/// Errors: invalid (a type that tables do not have), data (more than 2 GiB of text or items).
pub fn with_small_offsets(column: &ArrayRef) -> Result<ArrayRef> {
    use DataType as T;
    match column.data_type() {
        T::LargeUtf8 => texts(column.as_string()),
        T::LargeList(_) => lists(column.as_list()),
        T::Struct(_) => structs(column.as_struct()),
        T::Boolean | T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => {
            Ok(column.clone())
        }
        T::Float32 | T::Float64 | T::Date32 | T::Timestamp(..) | T::Utf8 => Ok(column.clone()),
        other => Err(Error::invalid(format!("tables have no type {other}"))
            .help("convert it in `sql`, e.g. `cast(x as varchar)` or `cast(x as double)`")),
    }
}

fn texts(texts: &LargeStringArray) -> Result<ArrayRef> {
    let offsets = small(texts.offsets())?;
    Ok(Arc::new(built(StringArray::try_new(offsets, texts.values().clone(), texts.nulls().cloned()))?))
}

fn lists(lists: &LargeListArray) -> Result<ArrayRef> {
    let (offsets, values) = (small(lists.offsets())?, with_small_offsets(lists.values())?);
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Arc::new(built(ListArray::try_new(item, offsets, values, lists.nulls().cloned()))?))
}

fn structs(structs: &StructArray) -> Result<ArrayRef> {
    let parts = structs.columns().iter().map(with_small_offsets).collect::<Result<Vec<_>>>()?;
    let names = structs.fields().iter().map(|field| field.name());
    let fields: Fields =
        names.zip(&parts).map(|(name, part)| Field::new(name, part.data_type().clone(), true)).collect();
    let array = StructArray::try_new_with_length(fields, parts, structs.nulls().cloned(), structs.len());
    Ok(Arc::new(built(array)?))
}

fn small(offsets: &OffsetBuffer<i64>) -> Result<OffsetBuffer<i32>> {
    let narrow = offsets.iter().map(|offset| i32::try_from(*offset)).collect::<Result<Vec<i32>, _>>();
    let narrow = narrow.map_err(|_| Error::data("16,384 rows have more than 2 GiB of text or list items"))?;
    Ok(OffsetBuffer::new(ScalarBuffer::from(narrow)))
}

fn built<T>(array: Result<T, ArrowError>) -> Result<T> {
    array.map_err(|e| Error::bug(format!("a column is not valid: {e}")))
}
