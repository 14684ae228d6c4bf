//! Schemas: shorthands to write them, and the comparison of a file's schema with the expected one.
//!
//! Types are compared by shape: other writers choose other names for list items and other nullability, and forbidden
//! nulls are found when rows are read. Since columns and fields of structs are only ever added, unexpected ones are
//! ignored and missing nullable ones read as nulls.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

pub(crate) fn required(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, false)
}

pub(crate) fn optional(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, true)
}

/// A list without null items.
pub(crate) fn list(kind: DataType) -> DataType {
    DataType::List(item(kind))
}

/// The item field of such a list.
pub(crate) fn item(kind: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(kind, false))
}

pub(crate) fn structure(fields: &[Field]) -> DataType {
    DataType::Struct(Fields::from(fields.to_vec()))
}

/// `map<string, f64>` with sorted keys.
pub(crate) fn sorted_map() -> DataType {
    DataType::Map(Arc::new(required("entries", DataType::Struct(map_fields()))), true)
}

pub(crate) fn map_fields() -> Fields {
    Fields::from(vec![required("keys", DataType::Utf8), required("values", DataType::Float64)])
}

/// The index in the file of each expected column; none for a nullable one that is missing.
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

/// A column of a [`readable`] type in the fields of the expected one: those that are missing are null, those that are
/// not expected are left out.
pub(crate) fn fitted(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    if same_shape(column.data_type(), kind) {
        return Ok(column.clone());
    }
    match (column.data_type(), kind) {
        (DataType::List(_), DataType::List(item)) => {
            let lists = column.as_list::<i32>();
            let values = fitted(lists.values(), item.data_type())?;
            let list = ListArray::try_new(item.clone(), lists.offsets().clone(), values, lists.nulls().cloned())?;
            Ok(Arc::new(list))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let parts = column.as_struct();
            let part = |field: &FieldRef| match parts.column_by_name(field.name()) {
                Some(part) => fitted(part, field.data_type()),
                None => Ok(new_null_array(field.data_type(), parts.len())),
            };
            let columns = fields.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?))
        }
        _ => Ok(column.clone()),
    }
}

/// The batch under a schema with more nullable columns or fields.
pub(crate) fn widened(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
        Some(column) => fitted(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>, _>>();
    columns
        .and_then(|columns| RecordBatch::try_new(schema.clone(), columns))
        .map_err(|e| Error::bug(format!("a table cannot get more columns: {e}")))
}

fn same_shape(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_shape(a.data_type(), b.data_type()),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (a.data_type(), b.data_type()) {
            (DataType::Struct(a), DataType::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a.data_type(), b.data_type()))
            }
            _ => false,
        },
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && same_shape(a.data_type(), b.data_type()))
        }
        _ => a == b,
    }
}
