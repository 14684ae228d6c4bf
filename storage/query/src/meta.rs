//! Adds a column `meta_<name>` for each key of the column `meta`, which has further columns of imported rows as JSON
//! text of an object.
//!
//! SQLite computes these columns from `meta`, so only cells that a statement reads are parsed.

use crate::flatten::{CellKind, quoted};
use arrow_array::cast::AsArray as _;
use arrow_schema::{DataType, Schema};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_tables::{BatchReader, ReadSlice, TableSource};

pub(crate) const META: &str = "meta";
/// With more keys than this there are no columns of them; `json_extract(meta, …)` reads them.
const MAX_KEYS: usize = 256;

/// A column that is computed from `meta`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetaColumn {
    pub name: String,
    pub kind: CellKind,
    key: String,
}

impl MetaColumn {
    /// Returns the definition of the column in `CREATE TABLE`.
    pub fn definition(&self) -> String {
        let path = format!("$.\"{}\"", self.key).replace('\'', "''");
        format!("{} {} AS (json_extract({}, '{path}'))", quoted(&self.name), self.kind.declared(), quoted(META))
    }
}

/// Returns the columns of the keys of `meta`, sorted by key, if the schema has that column and all of its cells are
/// objects. `taken` are the names of other columns. Errors: those of reading the file.
pub(crate) fn meta_columns(
    source: &TableSource,
    schema: &Schema,
    taken: &[(String, CellKind)],
) -> Result<Vec<MetaColumn>> {
    let is_text = schema.field_with_name(META).is_ok_and(|field| field.data_type() == &DataType::Utf8);
    let kinds = if is_text { key_kinds(source)? } else { BTreeMap::new() };
    let mut columns: Vec<MetaColumn> = Vec::new();
    for (key, kind) in kinds {
        let name = format!("{META}_{key}");
        let used = |name: &str| {
            let mut names = taken.iter().map(|(name, _)| name).chain(columns.iter().map(|column| &column.name));
            names.any(|other| other.eq_ignore_ascii_case(name))
        };
        let name = if used(&name) { (2..).map(|n| format!("{name}_{n}")).find(|name| !used(name)) } else { Some(name) };
        columns.extend(name.map(|name| MetaColumn { name, kind: kind.unwrap_or(CellKind::Text), key }));
    }
    Ok(columns)
}

/// Returns the kind of the values of each key; `None` if all are null. Empty if a cell is no object, or if there are
/// too many keys.
fn key_kinds(source: &TableSource) -> Result<BTreeMap<String, Option<CellKind>>> {
    let mut kinds: BTreeMap<String, Option<CellKind>> = BTreeMap::new();
    let columns = [META.to_string()];
    for batch in BatchReader::open_part(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })? {
        for text in batch?.column(0).as_string::<i32>().iter().flatten() {
            let Ok(object) = serde_json::from_str::<Map<String, Value>>(text) else { return Ok(BTreeMap::new()) };
            for (key, value) in object.into_iter().filter(|(key, _)| has_path(key)) {
                let kind = kinds.entry(key).or_default();
                *kind = common(*kind, kind_of_value(&value));
            }
        }
        if kinds.len() > MAX_KEYS {
            return Ok(BTreeMap::new());
        }
    }
    Ok(kinds)
}

/// Returns whether a key can be written in a JSON path, which has no escapes.
fn has_path(key: &str) -> bool {
    !key.contains(|c: char| c == '"' || c == '\\' || c.is_control())
}

fn kind_of_value(value: &Value) -> Option<CellKind> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(CellKind::Bool),
        Value::Number(number) if number.is_i64() => Some(CellKind::Int),
        Value::Number(_) => Some(CellKind::Float),
        Value::Array(items) if !items.iter().any(|item| item.is_array() || item.is_object()) => Some(CellKind::List),
        Value::String(_) | Value::Array(_) | Value::Object(_) => Some(CellKind::Text),
    }
}

fn common(a: Option<CellKind>, b: Option<CellKind>) -> Option<CellKind> {
    match (a, b) {
        (None, kind) | (kind, None) => kind,
        (Some(a), Some(b)) if a == b => Some(a),
        (Some(CellKind::Int | CellKind::Float), Some(CellKind::Int | CellKind::Float)) => Some(CellKind::Float),
        _ => Some(CellKind::Text),
    }
}
