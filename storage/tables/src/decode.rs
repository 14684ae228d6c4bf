//! Builds rows from Arrow columns. The caller has compared the types, so only nulls and unknown words can still be
//! invalid.

use crate::schema::{NAMED_NUMBER, conform, convert_column};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray, StructArray, make_array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// The expected columns of one batch.
pub struct BatchColumns<'a> {
    path: &'a Path,
    columns: BTreeMap<String, ArrayRef>,
    /// Expected columns that the batch does not have, with the values of default rows.
    left_out: BTreeSet<String>,
    rows: usize,
}

impl<'a> BatchColumns<'a> {
    pub(crate) fn new(path: &'a Path, batch: &RecordBatch, expected: &Schema) -> Result<Self> {
        let places = conform(path, batch.schema_ref(), expected)?;
        let pick = |(field, index): (&FieldRef, Option<usize>)| {
            let column = match index {
                None => new_null_array(field.data_type(), batch.num_rows()),
                Some(i) => convert_column(batch.column(i), field.data_type())
                    .map_err(|e| Error::data(format!("{}: column `{}`: {e}", path.display(), field.name())))?,
            };
            Ok((field.name().clone(), column))
        };
        let columns = expected.fields().iter().zip(places).map(pick).collect::<Result<_>>()?;
        Ok(Self { path, columns, left_out: BTreeSet::new(), rows: batch.num_rows() })
    }
    /// Reads a batch with some of the expected columns; the others have the values of default rows.
    pub(crate) fn part(path: &'a Path, batch: &RecordBatch, expected: &Schema) -> Result<Self> {
        let (found, left_out): (Vec<&FieldRef>, Vec<&FieldRef>) =
            expected.fields().iter().partition(|field| batch.column_by_name(field.name()).is_some());
        let mut part = Self::new(path, batch, &Schema::new(found.into_iter().cloned().collect::<Vec<_>>()))?;
        for field in left_out {
            part.columns.insert(field.name().clone(), default_column(field, batch.num_rows()));
            part.left_out.insert(field.name().clone());
        }
        Ok(part)
    }
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
    pub(crate) fn strings(&self, name: &str) -> Result<Vec<String>> {
        let column = self.whole(name)?;
        Ok(texts(column.as_string()).map(Option::unwrap_or_default).collect())
    }
    pub(crate) fn optional_strings(&self, name: &str) -> Result<Vec<Option<String>>> {
        Ok(texts(self.column(name)?.as_string()).collect())
    }
    pub(crate) fn numbers<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<T::Native>> {
        Ok(self.whole(name)?.as_primitive::<T>().values().to_vec())
    }
    pub(crate) fn optional_numbers<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Option<T::Native>>> {
        Ok(self.column(name)?.as_primitive::<T>().iter().collect())
    }
    pub(crate) fn lists<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Vec<T::Native>>> {
        let lists = self.whole(name)?.as_list::<i32>();
        let values = self.items(name, lists)?.as_primitive::<T>().values();
        Ok(ranges(lists).map(|range| values[range].to_vec()).collect())
    }
    pub(crate) fn optional_lists<T: ArrowPrimitiveType>(&self, name: &str) -> Result<Vec<Option<Vec<T::Native>>>> {
        let lists = self.column(name)?.as_list::<i32>();
        let values = self.items(name, lists)?.as_primitive::<T>().values();
        Ok(ranges(lists).enumerate().map(|(i, range)| lists.is_valid(i).then(|| values[range].to_vec())).collect())
    }
    pub(crate) fn bool_lists(&self, name: &str) -> Result<Vec<Vec<bool>>> {
        let lists = self.whole(name)?.as_list::<i32>();
        let values = self.items(name, lists)?.as_boolean().values();
        Ok(ranges(lists).map(|range| range.map(|i| values.value(i)).collect()).collect())
    }
    pub(crate) fn string_lists(&self, name: &str) -> Result<Vec<Vec<String>>> {
        let lists = self.whole(name)?.as_list::<i32>();
        let values = self.items(name, lists)?.as_string::<i32>();
        Ok(ranges(lists).map(|range| range.map(|i| values.value(i).to_string()).collect()).collect())
    }
    /// Reads lists of strings, with an empty list for null.
    pub(crate) fn optional_string_lists(&self, name: &str) -> Result<Vec<Vec<String>>> {
        let lists = self.column(name)?.as_list::<i32>();
        let values = self.items(name, lists)?.as_string::<i32>();
        let list = |(i, range): (usize, std::ops::Range<usize>)| match lists.is_valid(i) {
            true => range.map(|i| values.value(i).to_string()).collect(),
            false => Vec::new(),
        };
        Ok(ranges(lists).enumerate().map(list).collect())
    }
    /// Reads lists of structs: the range of each row, and the concatenated fields as columns.
    pub(crate) fn struct_lists(
        &self,
        name: &str,
        fields: &Schema,
    ) -> Result<(Vec<std::ops::Range<usize>>, BatchColumns<'a>)> {
        let lists = self.whole(name)?.as_list::<i32>();
        let parts = self.items(name, lists)?.as_struct();
        Ok((ranges(lists).collect(), self.inner(name, parts, fields)))
    }
    /// Reads one struct per row, as columns.
    pub(crate) fn structs(&self, name: &str, fields: &Schema) -> Result<BatchColumns<'a>> {
        Ok(self.inner(name, self.whole(name)?.as_struct(), fields))
    }
    /// Reads numbers by name, one set per row.
    pub(crate) fn named_numbers(&self, name: &str) -> Result<Vec<BTreeMap<String, f64>>> {
        let (ranges, parts) = self.struct_lists(name, &Schema::new(NAMED_NUMBER.clone()))?;
        let (names, values) = (parts.strings("name")?, parts.numbers::<Float64Type>("value")?);
        Ok(ranges.into_iter().map(|range| range.map(|i| (names[i].clone(), values[i])).collect()).collect())
    }
    /// Reads words of a closed set.
    pub(crate) fn words<T: DeserializeOwned + Default>(&self, name: &str) -> Result<Vec<T>> {
        if self.left_out.contains(name) {
            return Ok((0..self.rows).map(|_| T::default()).collect());
        }
        let parse = |word: String| {
            serde_json::from_value(Value::String(word)).map_err(|e| self.wrong(format!("column `{name}`: {e}")))
        };
        self.strings(name)?.into_iter().map(parse).collect()
    }
    pub(crate) fn bools(&self, name: &str) -> Result<Vec<bool>> {
        Ok(self.whole(name)?.as_boolean().values().iter().collect())
    }
    pub(crate) fn optional_bools(&self, name: &str) -> Result<Vec<Option<bool>>> {
        Ok(self.column(name)?.as_boolean().iter().collect())
    }

    fn column(&self, name: &str) -> Result<&ArrayRef> {
        self.columns.get(name).ok_or_else(|| Error::bug(format!("no column `{name}` in this schema")))
    }
    /// Returns a column. Errors: data, if it contains nulls.
    fn whole(&self, name: &str) -> Result<&ArrayRef> {
        let column = self.column(name)?;
        self.refuse_nulls(name, column)?;
        Ok(column)
    }
    fn items<'b>(&self, name: &str, lists: &'b ListArray) -> Result<&'b ArrayRef> {
        self.refuse_nulls(name, lists.values())?;
        Ok(lists.values())
    }
    fn inner(&self, name: &str, parts: &StructArray, fields: &Schema) -> BatchColumns<'a> {
        let names = fields.fields().iter().map(|field| field.name().clone());
        let columns = names.zip(parts.columns().iter().cloned()).collect();
        debug_assert_eq!(parts.num_columns(), fields.fields().len(), "{name} was compared before");
        BatchColumns { path: self.path, columns, left_out: BTreeSet::new(), rows: parts.len() }
    }
    fn refuse_nulls(&self, name: &str, column: &ArrayRef) -> Result<()> {
        match column.nulls().map_or(0, |nulls| nulls.null_count()) {
            0 => Ok(()),
            n => Err(self.wrong(format!("column `{name}` has {n} nulls, but every row must have a value"))),
        }
    }
    fn wrong(&self, message: String) -> Error {
        Error::data(format!("{}: {message}", self.path.display()))
    }
}

/// Returns a column of nulls, or of zeros and empty values where nulls are not allowed.
fn default_column(field: &Field, rows: usize) -> ArrayRef {
    match field.data_type() {
        kind if field.is_nullable() => new_null_array(kind, rows),
        DataType::Struct(fields) => {
            let parts = fields.iter().map(|field| default_column(field, rows)).collect();
            Arc::new(StructArray::new(fields.clone(), parts, None))
        }
        kind => {
            let values = new_null_array(kind, rows).to_data().into_builder().nulls(None);
            values.build().map_or_else(|_| new_null_array(kind, rows), make_array)
        }
    }
}

fn texts(column: &StringArray) -> impl Iterator<Item = Option<String>> + '_ {
    column.iter().map(|text| text.map(str::to_string))
}

fn ranges(lists: &ListArray) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    lists.value_offsets().windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
}
