//! Builds Arrow columns from rows.

use crate::schema;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, ListArray, PrimitiveArray, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Fields};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn optional_strings<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(crate) fn numbers<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

pub(crate) fn optional_numbers<T: ArrowPrimitiveType>(values: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
    Arc::new(values.collect::<Vec<_>>().into_iter().collect::<PrimitiveArray<T>>())
}

pub(crate) fn bools(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values.collect::<Vec<_>>()))
}

pub(crate) fn optional_bools(values: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.collect::<BooleanArray>())
}

/// Builds one list of numbers per row.
pub(crate) fn lists<'a, T: ArrowPrimitiveType>(rows: impl Iterator<Item = &'a [T::Native]>) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    let values: Vec<T::Native> = rows.iter().flat_map(|row| row.iter().copied()).collect();
    nested(rows.iter().map(|row| row.len()), primitive::<T>(values), None)
}

/// Builds one list of numbers per row, or null.
pub(crate) fn optional_lists<'a, T: ArrowPrimitiveType>(
    rows: impl Iterator<Item = Option<&'a [T::Native]>>,
) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    let valid: NullBuffer = rows.iter().map(Option::is_some).collect();
    let values: Vec<T::Native> = rows.iter().flatten().flat_map(|row| row.iter().copied()).collect();
    nested(rows.iter().map(|row| row.map_or(0, <[_]>::len)), primitive::<T>(values), Some(valid))
}

/// Builds one list of strings per row; an empty list is null.
pub(crate) fn optional_string_lists<'a>(rows: impl Iterator<Item = &'a [String]>) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    let valid: NullBuffer = rows.iter().map(|row| !row.is_empty()).collect();
    let values = strings(rows.iter().flat_map(|row| row.iter().map(String::as_str)));
    nested(rows.iter().map(|row| row.len()), values, Some(valid))
}

pub(crate) fn bool_lists<'a>(rows: impl Iterator<Item = &'a [bool]>) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    nested(rows.iter().map(|row| row.len()), bools(rows.iter().flat_map(|row| row.iter().copied())), None)
}

/// Builds lists of the given lengths over their concatenated values.
pub(crate) fn nested(lengths: impl Iterator<Item = usize>, values: ArrayRef, valid: Option<NullBuffer>) -> ArrayRef {
    Arc::new(ListArray::new(
        schema::item(values.data_type().clone()),
        OffsetBuffer::from_lengths(lengths),
        values,
        valid,
    ))
}

pub(crate) fn structs(fields: &DataType, columns: Vec<ArrayRef>) -> ArrayRef {
    let fields = if let DataType::Struct(fields) = fields { fields.clone() } else { Fields::empty() };
    Arc::new(StructArray::new(fields, columns, None))
}

/// Builds one list of names and numbers per row, sorted by name.
pub(crate) fn named_numbers<'a>(rows: impl Iterator<Item = &'a BTreeMap<String, f64>>) -> ArrayRef {
    let rows: Vec<_> = rows.collect();
    let names = strings(rows.iter().flat_map(|row| row.keys().map(String::as_str)));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().flat_map(|row| row.values().copied())));
    nested(rows.iter().map(|row| row.len()), structs(&schema::named_number(), vec![names, values]), None)
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None))
}
