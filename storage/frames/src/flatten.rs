//! Arrow columns as Polars can hold them: nested ones flattened, narrow numbers widened, rare types as text.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::nullif::nullif;
use arrow_select::take::take;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::json::{Cut, cell_as_json};
use trainyard_tables::{BatchReader, Part};

/// A map with more keys than this stays one column of JSON text.
const KEYS: usize = 256;

/// How the columns of a file become flat ones.
pub(crate) struct Flattening {
    columns: Vec<Flat>,
    schema: SchemaRef,
}

struct Flat {
    root: usize,
    steps: Vec<Step>,
    shape: Target,
}

#[derive(Clone)]
enum Step {
    Field(usize),
    Key(String),
}

enum Target {
    As(DataType),
    Text,
}

impl Flattening {
    /// Plans the flattening of a schema. `keys` are the keys of its map columns.
    pub fn new(schema: &Schema, keys: &BTreeMap<String, BTreeSet<String>>) -> Self {
        let mut plan = Planner {
            taken: schema.fields().iter().map(|f| f.name().clone()).collect(),
            keys,
            fields: Vec::new(),
            columns: Vec::new(),
        };
        for (root, field) in schema.fields().iter().enumerate() {
            plan.add(root, field.name().clone(), field.data_type(), Vec::new());
        }
        Self { columns: plan.columns, schema: Arc::new(Schema::new(plan.fields)) }
    }
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|flat| flat.take_from(batch))
            .collect::<Result<Vec<_>, ArrowError>>()
            .map_err(|e| no_form(&e))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(|e| no_form(&e))
    }
}

fn no_form(error: &ArrowError) -> Error {
    Error::bug(format!("a table has no flat form: {error}"))
}

struct Planner<'a> {
    taken: BTreeSet<String>,
    keys: &'a BTreeMap<String, BTreeSet<String>>,
    fields: Vec<Field>,
    columns: Vec<Flat>,
}

impl Planner<'_> {
    fn add(&mut self, root: usize, name: String, kind: &DataType, steps: Vec<Step>) {
        match kind {
            DataType::Struct(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    let name = self.child(&name, part.name());
                    self.add(root, name, part.data_type(), [steps.clone(), vec![Step::Field(i)]].concat());
                }
            }
            DataType::Map(entries, _) if steps.is_empty() && self.keys.contains_key(&name) => {
                let DataType::Struct(pair) = entries.data_type() else { return };
                for key in &self.keys[&name] {
                    let child = self.child(&name, key);
                    self.add(root, child, pair[1].data_type(), vec![Step::Key(key.clone())]);
                }
            }
            kind => {
                let shape = simple(kind).map_or(Target::Text, Target::As);
                let flat = if let Target::As(kind) = &shape { kind.clone() } else { DataType::Utf8 };
                self.taken.insert(name.clone());
                self.fields.push(Field::new(name, flat, true));
                self.columns.push(Flat { root, steps, shape });
            }
        }
    }
    /// `rewards_answer`, or `rewards.answer` if the table has a column of the first name.
    fn child(&self, parent: &str, part: &str) -> String {
        let name = format!("{parent}_{part}");
        if self.taken.contains(&name) { format!("{parent}.{part}") } else { name }
    }
}

/// The type in which Polars holds a column; none if it must become text.
fn simple(kind: &DataType) -> Option<DataType> {
    use DataType::{
        Boolean, Date32, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeList, LargeUtf8, List,
        Null, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match kind {
        Boolean | Int32 | Int64 | UInt32 | UInt64 | Float32 | Float64 | Utf8 | Date32 => Some(kind.clone()),
        Int8 | Int16 => Some(Int32),
        UInt8 | UInt16 => Some(UInt32),
        Float16 => Some(Float32),
        LargeUtf8 | Utf8View | Null => Some(Utf8),
        Dictionary(_, values) if matches!(values.as_ref(), Utf8 | LargeUtf8) => Some(Utf8),
        List(item) | LargeList(item) => {
            simple(item.data_type()).map(|kind| LargeList(Arc::new(Field::new_list_field(kind, true))))
        }
        _ => None,
    }
}

impl Flat {
    fn take_from(&self, batch: &RecordBatch) -> Result<ArrayRef, ArrowError> {
        let mut column = batch.column(self.root).clone();
        for step in &self.steps {
            column = match step {
                Step::Field(i) => part(&column, *i)?,
                Step::Key(key) => at_key(&column, key)?,
            };
        }
        match &self.shape {
            Target::As(kind) if column.data_type() == kind => Ok(column),
            Target::As(kind) => cast(&column, kind),
            Target::Text => Ok(Arc::new((0..column.len()).map(|row| as_text(&column, row)).collect::<StringArray>())),
        }
    }
}

fn as_text(column: &ArrayRef, row: usize) -> Option<String> {
    match cell_as_json(column, row, Cut::NONE) {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// A field of a struct, null where the struct is null.
fn part(column: &ArrayRef, i: usize) -> Result<ArrayRef, ArrowError> {
    let whole = column.as_struct();
    match whole.nulls() {
        Some(nulls) => nullif(whole.column(i), &BooleanArray::new(!nulls.inner(), None)),
        None => Ok(whole.column(i).clone()),
    }
}

/// The values of a map under one key, null where the key is missing.
fn at_key(column: &ArrayRef, key: &str) -> Result<ArrayRef, ArrowError> {
    let map = column.as_map();
    let keys = map.keys().as_string::<i32>();
    let offsets = map.value_offsets();
    let find = |row: usize| {
        (offsets[row] as usize..offsets[row + 1] as usize)
            .find(|i| map.is_valid(row) && keys.value(*i) == key)
            .map(|i| i as u64)
    };
    let places: UInt64Array = (0..map.len()).map(find).collect();
    take(map.values(), &places, None)
}

/// The keys of every map column with text keys, if there are few enough.
pub(crate) fn map_keys(path: &Path, schema: &Schema) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let maps: Vec<_> = schema
        .fields()
        .iter()
        .filter(|field| has_text_keys(field.data_type()))
        .map(|field| field.name().clone())
        .collect();
    let mut found: BTreeMap<String, BTreeSet<String>> =
        maps.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
    if maps.is_empty() {
        return Ok(found);
    }
    let reader = BatchReader::open_part(path, &Part { columns: Some(&maps), ..Part::default() })?;
    for batch in reader {
        let batch = batch?;
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let names = column.as_map().keys().as_string::<i32>().iter().flatten();
            if let Some(keys) = found.get_mut(field.name()) {
                for name in names {
                    if !keys.contains(name) {
                        keys.insert(name.to_string());
                    }
                }
            }
        }
    }
    found.retain(|_, keys| keys.len() <= KEYS);
    Ok(found)
}

fn has_text_keys(kind: &DataType) -> bool {
    match kind {
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return false };
            pair.len() == 2 && *pair[0].data_type() == DataType::Utf8
        }
        _ => false,
    }
}
