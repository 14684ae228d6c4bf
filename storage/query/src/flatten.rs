//! Flattens nested Arrow columns: fields of structs, keys of maps and names of lists of `{name, value}` become separate
//! columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use arrow_select::nullif::nullif;
use arrow_select::take::take;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchReader, ReadSlice, TableSource};

/// A map with more keys than this stays one column of JSON text.
const MAX_MAP_KEYS: usize = 256;

/// Type of the cells of a flat column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Boolean.
    Bool,
    /// Signed integer.
    Int,
    /// Unsigned 64-bit integer, out of the range of SQLite's integers.
    Unsigned,
    /// Float.
    Float,
    /// Text.
    Text,
    /// JSON text of a list of plain values.
    List,
}

impl CellKind {
    /// Returns the declared type of a column. SQLite reports it for every result column that is a column of a table.
    /// "BLOB" keeps SQLite from converting the digits of a large integer to a float.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Self::Bool => "BOOLEAN",
            Self::Int => "INTEGER",
            Self::Unsigned => "BLOB UNSIGNED",
            Self::Float => "REAL",
            Self::Text => "TEXT",
            Self::List => "LIST",
        }
    }
    /// Returns the kind of a declared type.
    pub(crate) fn of_declared(declared: &str) -> Option<Self> {
        [Self::Bool, Self::Int, Self::Unsigned, Self::Float, Self::Text, Self::List]
            .into_iter()
            .find(|kind| kind.declared() == declared)
    }
}

/// Mapping of a file's columns to flat ones.
pub struct ColumnFlattener {
    columns: Vec<FlatColumn>,
    names: Vec<String>,
}

struct FlatColumn {
    root: usize,
    steps: Vec<PathStep>,
    kind: CellKind,
}

#[derive(Clone)]
enum PathStep {
    Field(usize),
    Key(String),
}

impl ColumnFlattener {
    /// Plans the flattening of a table. `read` reads the named columns of all its rows, if their keys become columns.
    pub fn of_table<B>(schema: &Schema, read: impl FnOnce(&[String]) -> Result<B>) -> Result<Self>
    where
        B: Iterator<Item = Result<RecordBatch>>,
    {
        let maps = map_columns(schema);
        let keys = if maps.is_empty() { BTreeMap::new() } else { map_keys(&maps, read(&maps)?)? };
        Ok(Self::new(schema, &keys))
    }
    /// Plans the flattening of the columns of a file.
    pub(crate) fn of_file(source: &TableSource, schema: &Schema) -> Result<Self> {
        let part = |maps: &[String]| {
            BatchReader::open_part(source, &ReadSlice { columns: Some(maps), ..ReadSlice::default() })
        };
        Self::of_table(schema, part)
    }
    /// Plans the flattening of a schema; `keys` are the keys of its maps.
    pub(crate) fn new(schema: &Schema, keys: &BTreeMap<String, BTreeSet<String>>) -> Self {
        let mut plan = FlattenPlan {
            taken: schema.fields().iter().map(|f| f.name().to_lowercase()).collect(),
            keys,
            names: Vec::new(),
            columns: Vec::new(),
        };
        for (root, field) in schema.fields().iter().enumerate() {
            plan.add(root, field.name().clone(), field.data_type(), Vec::new());
        }
        Self { columns: plan.columns, names: plan.names }
    }
    /// Returns the flat columns, in order.
    pub fn columns(&self) -> Vec<(String, CellKind)> {
        self.names.iter().cloned().zip(self.columns.iter().map(|flat| flat.kind)).collect()
    }
    /// Flattens a batch.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.flat(batch).map_err(|e| Error::bug(format!("a table has no flat form: {e}")))
    }
    fn flat(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter().map(|flat| flat.extract(batch)).collect::<Result<Vec<_>, _>>()?;
        let fields =
            self.names.iter().zip(&columns).map(|(name, column)| Field::new(name, column.data_type().clone(), true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options)
    }
}

struct FlattenPlan<'a> {
    /// Names in use, in lower case: SQL names are case-insensitive.
    taken: BTreeSet<String>,
    keys: &'a BTreeMap<String, BTreeSet<String>>,
    names: Vec<String>,
    columns: Vec<FlatColumn>,
}

impl FlattenPlan<'_> {
    fn add(&mut self, root: usize, name: String, kind: &DataType, steps: Vec<PathStep>) {
        match kind {
            DataType::Struct(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    let name = self.child(&name, part.name());
                    self.add(root, name, part.data_type(), [steps.clone(), vec![PathStep::Field(i)]].concat());
                }
            }
            kind if steps.is_empty() && self.keys.contains_key(&name) => {
                let Some(pair) = text_map_fields(kind) else { return };
                for key in &self.keys[&name] {
                    let child = self.child(&name, key);
                    self.add(root, child, pair[1].data_type(), vec![PathStep::Key(key.clone())]);
                }
            }
            kind => {
                let name = self.unused(name);
                self.taken.insert(name.to_lowercase());
                self.names.push(name);
                self.columns.push(FlatColumn { root, steps, kind: plain(kind).unwrap_or(CellKind::Text) });
            }
        }
    }
    /// Returns `rewards_answer`, or `rewards.answer` if the table has a column of the first name.
    fn child(&self, parent: &str, part: &str) -> String {
        let name = format!("{parent}_{part}");
        if self.taken.contains(&name.to_lowercase()) { format!("{parent}.{part}") } else { name }
    }
    /// Returns the name, with a number appended if an earlier column differs from it in case only.
    fn unused(&self, name: String) -> String {
        let used = |name: &str| self.names.iter().any(|other| other.eq_ignore_ascii_case(name));
        if !used(&name) {
            return name;
        }
        (2..).map(|n| format!("{name}_{n}")).find(|candidate| !used(candidate)).unwrap_or(name)
    }
}

/// Returns the kind of a column whose cells are not JSON objects.
fn plain(kind: &DataType) -> Option<CellKind> {
    use DataType::{
        Boolean, Date32, Dictionary, FixedSizeList, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeList,
        LargeUtf8, List, Null, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match kind {
        Boolean => Some(CellKind::Bool),
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => Some(CellKind::Int),
        UInt64 => Some(CellKind::Unsigned),
        Float16 | Float32 | Float64 => Some(CellKind::Float),
        Utf8 | LargeUtf8 | Utf8View | Null | Date32 | Dictionary(..) => Some(CellKind::Text),
        List(item) | LargeList(item) | FixedSizeList(item, _) => plain(item.data_type()).map(|_| CellKind::List),
        _ => None,
    }
}

impl FlatColumn {
    fn extract(&self, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
        let mut column = batch.column(self.root).clone();
        for step in &self.steps {
            column = match step {
                PathStep::Field(i) => part(&column, *i)?,
                PathStep::Key(key) => at_key(&column, key)?,
            };
        }
        Ok(column)
    }
}

/// Returns a field of a struct, null where the struct is.
fn part(column: &ArrayRef, i: usize) -> Result<ArrayRef, ArrowError> {
    let parent = column.as_struct();
    match parent.nulls() {
        Some(nulls) => nullif(parent.column(i), &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(parent.column(i).clone()),
    }
}

/// Returns a map, or a list of names and values, as concatenated keys and values and the offset of each row.
fn entries(column: &ArrayRef) -> (&StringArray, &ArrayRef, &[i32]) {
    match column.data_type() {
        DataType::Map(..) => {
            let map = column.as_map();
            (map.keys().as_string(), map.values(), map.value_offsets())
        }
        _ => {
            let lists = column.as_list::<i32>();
            let pairs = lists.values().as_struct();
            (pairs.column(0).as_string(), pairs.column(1), lists.value_offsets())
        }
    }
}

/// Returns the values under one key, null where it is missing.
fn at_key(column: &ArrayRef, key: &str) -> Result<ArrayRef, ArrowError> {
    let (keys, values, offsets) = entries(column);
    let find = |row: usize| {
        (offsets[row] as usize..offsets[row + 1] as usize)
            .find(|i| column.is_valid(row) && keys.value(*i) == key)
            .map(|i| i as u64)
    };
    let places: UInt64Array = (0..column.len()).map(find).collect();
    take(values, &places, None)
}

/// Returns the keys of each of these text-keyed columns, unless there are too many.
fn map_keys(
    maps: &[String],
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> =
        maps.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
    for batch in batches {
        let batch = batch?;
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let names = entries(column).0.iter().flatten();
            if let Some(keys) = found.get_mut(field.name()) {
                for name in names {
                    if !keys.contains(name) {
                        keys.insert(name.to_string());
                    }
                }
            }
        }
    }
    found.retain(|_, keys| keys.len() <= MAX_MAP_KEYS);
    Ok(found)
}

/// Returns the names of a schema's text-keyed columns, whose keys only a file has.
pub(crate) fn map_columns(schema: &Schema) -> Vec<String> {
    let maps = schema.fields().iter().filter(|field| text_map_fields(field.data_type()).is_some());
    maps.map(|field| field.name().clone()).collect()
}

/// Returns the key and value fields of text-keyed columns: maps, and lists of `{name, value}`.
fn text_map_fields(kind: &DataType) -> Option<&Fields> {
    let (DataType::Map(items, _) | DataType::List(items)) = kind else { return None };
    let DataType::Struct(pair) = items.data_type() else { return None };
    let named =
        matches!(kind, DataType::Map(..)) || (pair.len() == 2 && pair[0].name() == "name" && pair[1].name() == "value");
    (named && pair.len() == 2 && pair[0].data_type() == &DataType::Utf8).then_some(pair)
}

/// Quotes a name as an SQL identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
