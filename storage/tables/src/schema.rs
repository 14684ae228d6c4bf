//! Schemas: shorthands to write them, and the comparison of a file's schema with the expected one.
//!
//! Types are compared by shape: other writers choose other names for list items and other nullability, and forbidden
//! nulls are found when rows are read. Since columns are only ever added, unexpected columns are ignored and missing
//! nullable ones read as nulls.

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
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
        Some((index, field)) if same_shape(field.data_type(), kind) => Ok(Some(index)),
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
