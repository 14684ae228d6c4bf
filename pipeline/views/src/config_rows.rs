//! Lists the values of a stage's config, and which of them equal the defaults of its kind.
//!
//! The store keeps only complete configs, with defaults filled in. So each value is compared with the default in the
//! schema of the kind's options, or with that of the composition that applies if the workflow names none.

mod defaults;
#[cfg(test)]
mod tests;

use crate::diff::below;
use defaults::{DefaultPlace, is_same};
use serde_json::Value;

/// Defaults of a stage kind.
#[derive(Debug, Clone, Copy)]
pub struct KindDefaults<'a> {
    /// JSON Schema of the options.
    pub options: &'a Value,
    /// Options of the default composition, which are laid over the defaults of the schema.
    pub composition: Option<&'a Value>,
}

/// Value of a config.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigRow {
    /// Path of the value, as `loss.terms[0].clip_low`.
    pub path: String,
    /// Value: no map with keys, and no list with maps.
    pub value: Value,
    /// Whether the value equals the default.
    pub is_default: bool,
}

/// Lists the values of a config in its order. Maps, and lists that have a map, are listed value by value.
pub fn config_rows(config: &Value, kind: KindDefaults<'_>) -> Vec<ConfigRow> {
    let mut rows = Vec::new();
    let place = DefaultPlace { root: kind.options, schema: Some(kind.options), base: kind.composition };
    add(&mut rows, String::new(), config, place);
    rows
}

fn add(rows: &mut Vec<ConfigRow>, path: String, value: &Value, place: DefaultPlace<'_>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                add(rows, below(&path, key), inner, place.key(value, key));
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                add(rows, format!("{path}[{at}]"), item, place.item(items, at));
            }
        }
        _ => {
            let is_default = place.base.is_some_and(|base| is_same(base, value));
            rows.push(ConfigRow { path, value: value.clone(), is_default });
        }
    }
}
