//! Provides shorthands for schemas, and compares a file's schema with the expected one.
//!
//! The comparison is by shape, because other writers choose other names for list items and other nullability. Forbidden
//! nulls are found when rows are read. Later versions only add columns and fields of structs, so unexpected ones are
//! ignored and missing nullable ones read as null.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use trainyard_core::{Error, Result};

pub(crate) fn required(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, false)
}

pub(crate) fn optional(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, true)
}

/// Returns the type of a list without null items.
pub(crate) fn list(kind: DataType) -> DataType {
    DataType::List(item(kind))
}

/// Returns the item field of such a list.
pub(crate) fn item(kind: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(kind, false))
}

pub(crate) fn structure(fields: &[Field]) -> DataType {
    DataType::Struct(Fields::from(fields.to_vec()))
}

/// Returns the type `list<struct{name, value}>`, sorted by name. Files of earlier versions contain a map, which other
/// readers rejected.
pub(crate) fn named_numbers() -> DataType {
    list(named_number())
}

/// Returns the item type of such a list.
pub(crate) fn named_number() -> DataType {
    structure(&NAMED_NUMBER)
}

/// Fields of such an item.
pub(crate) static NAMED_NUMBER: LazyLock<Vec<Field>> =
    LazyLock::new(|| vec![required("name", DataType::Utf8), required("value", DataType::Float64)]);

/// Returns the name and value fields of [`named_numbers`], from the type of such a list or of a map.
fn named_parts(kind: &DataType) -> Option<&Fields> {
    let (DataType::Map(items, _) | DataType::List(items)) = kind else { return None };
    match items.data_type() {
        DataType::Struct(parts) if parts.len() == 2 => Some(parts),
        _ => None,
    }
}

/// Whether a map has the names and values of an expected list.
fn is_map_of(found: &DataType, expected: &DataType) -> bool {
    match (found, named_parts(found), named_parts(expected)) {
        (DataType::Map(..), Some(found), Some(expected)) => {
            found.iter().zip(expected).all(|(a, b)| same_shape(a.data_type(), b.data_type()))
        }
        _ => false,
    }
}

/// Returns the index in the file of each expected column; `None` for a missing nullable one.
///
/// Errors: data, naming the file, the column and both types.
pub fn conform(path: &Path, found: &Schema, expected: &Schema) -> Result<Vec<Option<usize>>> {
    expected.fields().iter().map(|field| find(path, found, field)).collect()
}

fn find(path: &Path, found: &Schema, expected: &Field) -> Result<Option<usize>> {
    let (name, kind) = (expected.name(), expected.data_type());
    match found.column_with_name(name) {
        Some((index, field)) if readable(field.data_type(), kind) => Ok(Some(index)),
        Some((_, field)) => Err(mismatch(format!(
            "{}: column `{name}` has type {}, expected {kind}",
            path.display(),
            field.data_type()
        ))),
        None if expected.is_nullable() => Ok(None),
        None => Err(mismatch(format!("{}: column `{name}` of type {kind} is missing", path.display()))),
    }
}

fn mismatch(message: String) -> Error {
    Error::data(message)
        .help("check that the file is of the kind that the port expects; `trainyard artifacts show` prints its columns")
}

/// Whether cells of the first type can be read as the second.
fn readable(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::Map(..), DataType::List(_)) => is_map_of(found, expected),
        (DataType::List(found), DataType::List(expected)) => readable(found.data_type(), expected.data_type()),
        (DataType::Struct(found), DataType::Struct(expected)) => {
            expected.iter().all(|field| match found.find(field.name()) {
                Some((_, other)) => readable(other.data_type(), field.data_type()),
                None => field.is_nullable(),
            })
        }
        _ => same_shape(found, expected),
    }
}

/// Converts a column of a [`readable`] type to the fields of the expected one: missing ones are null, unexpected ones
/// are left out.
pub(crate) fn convert_column(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    if same_shape(column.data_type(), kind) {
        return Ok(column.clone());
    }
    match (column.data_type(), kind) {
        (DataType::Map(..), DataType::List(item)) => {
            let maps = column.as_map();
            let parts = vec![maps.keys().clone(), maps.values().clone()];
            let items = StructArray::try_new(named_parts(kind).cloned().unwrap_or_default(), parts, None)?;
            let list = ListArray::try_new(item.clone(), maps.offsets().clone(), Arc::new(items), maps.nulls().cloned());
            Ok(Arc::new(list?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = column.as_list::<i32>();
            let values = convert_column(lists.values(), item.data_type())?;
            let list = ListArray::try_new(item.clone(), lists.offsets().clone(), values, lists.nulls().cloned())?;
            Ok(Arc::new(list))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let parts = column.as_struct();
            let part = |field: &FieldRef| match parts.column_by_name(field.name()) {
                Some(part) => convert_column(part, field.data_type()),
                None => Ok(new_null_array(field.data_type(), parts.len())),
            };
            let columns = fields.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?))
        }
        _ => Ok(column.clone()),
    }
}

/// Converts a batch to a schema with more nullable columns or fields.
pub(crate) fn widen_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
        Some(column) => convert_column(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>, _>>();
    columns
        .and_then(|columns| RecordBatch::try_new(schema.clone(), columns))
        .map_err(|e| Error::bug(format!("a table cannot get more columns: {e}")))
}

/// Converts a column of a [`readable`] type to exactly the expected type: names and nullability of list items too.
///
/// Errors: nulls in a required field.
pub(crate) fn exact_column(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    let column = convert_column(column, kind)?;
    match kind {
        _ if column.data_type() == kind => Ok(column),
        DataType::List(item) => {
            let lists = column.as_list::<i32>();
            let values = exact_column(lists.values(), item.data_type())?;
            let list = ListArray::try_new(item.clone(), lists.offsets().clone(), values, lists.nulls().cloned())?;
            Ok(Arc::new(list))
        }
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let columns = fields.iter().zip(parts.columns()).map(|(field, part)| exact_column(part, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?))
        }
        _ => Ok(column),
    }
}

fn same_shape(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_shape(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && same_shape(a.data_type(), b.data_type()))
        }
        _ => a == b,
    }
}
