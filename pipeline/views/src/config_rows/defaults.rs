//! Finds the default of each value of a config.

use serde_json::{Map, Value};

/// Depth of references and alternatives of a schema, which may refer to itself.
const MAX_DEPTH: usize = 16;
/// Key that names the part of a family.
const KIND: &str = "kind";

/// Place in a config: its schema and its default.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefaultPlace<'a> {
    /// Schema that references are looked up in.
    pub root: &'a Value,
    /// Schema of the place; `None` if it is not known.
    pub schema: Option<&'a Value>,
    /// Default of the place; `None` without one.
    pub base: Option<&'a Value>,
}

impl<'a> DefaultPlace<'a> {
    /// Returns the place of a key of the map at this place. A default that is another part has no default for it.
    pub fn key(self, map: &Value, key: &str) -> Self {
        let found = self.schema.and_then(|schema| fitting(self.root, schema, map, MAX_DEPTH));
        let schema = found.and_then(|found| {
            let other = found.get("additionalProperties").filter(|other| other.is_object());
            found.get("properties").and_then(|properties| properties.get(key)).or(other)
        });
        let base = self.base.filter(|base| has_kind_of(base, map)).and_then(|base| match base {
            // A part without options may be given by its name alone.
            Value::String(_) if key == KIND => Some(base),
            base => base.get(key),
        });
        Self { schema, base: base.or_else(|| schema?.get("default")), ..self }
    }
    /// Returns the place of an item of the list at this place. Lists are replaced as a whole, so the items have the
    /// defaults of a list with as many items of the same kinds only.
    pub fn item(self, items: &[Value], at: usize) -> Self {
        let schema = self.schema.and_then(|schema| item_schema(self.root, schema, MAX_DEPTH));
        let list = self.base.and_then(Value::as_array).filter(|list| {
            list.len() == items.len() && list.iter().zip(items).all(|(base, item)| has_kind_of(base, item))
        });
        Self { schema, base: list.map(|list| &list[at]), ..self }
    }
}

/// Returns whether two values are equal. Integers equal the same numbers with a fraction of zero.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns whether a default is of the kind of a value: the same part, or no part.
fn has_kind_of(base: &Value, value: &Value) -> bool {
    let kind = value.get(KIND);
    match base {
        Value::String(_) => kind == Some(base),
        Value::Object(base) => base.get(KIND).is_none_or(|of_base| kind == Some(of_base)),
        _ => !value.is_object(),
    }
}

/// Follows references and alternatives to the schema of maps that fits a map.
fn fitting<'a>(root: &'a Value, schema: &'a Value, map: &Value, depth: usize) -> Option<&'a Value> {
    if depth == 0 {
        return None;
    }
    if let Some(target) = referenced(root, schema) {
        return fitting(root, target, map, depth - 1);
    }
    let is_map = schema.get("properties").or_else(|| schema.get("additionalProperties")).is_some();
    if is_map && fits(schema, map.as_object()?) {
        return Some(schema);
    }
    alternatives(schema).find_map(|schema| fitting(root, schema, map, depth - 1))
}

/// Returns whether a map has the constants of a schema, and no unknown key if the schema refuses them.
fn fits(schema: &Value, map: &Map<String, Value>) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut all = properties.into_iter().flatten();
    let has_constants =
        all.all(|(key, property)| property.get("const").is_none_or(|fixed| map.get(key) == Some(fixed)));
    let is_open = schema.get("additionalProperties") != Some(&Value::Bool(false));
    let is_known = |key: &String| properties.is_some_and(|properties| properties.contains_key(key));
    has_constants && (is_open || map.keys().all(is_known))
}

fn item_schema<'a>(root: &'a Value, schema: &'a Value, depth: usize) -> Option<&'a Value> {
    if depth == 0 {
        return None;
    }
    match (referenced(root, schema), schema.get("items")) {
        (Some(target), _) => item_schema(root, target, depth - 1),
        (None, Some(items)) => Some(items),
        (None, None) => alternatives(schema).find_map(|schema| item_schema(root, schema, depth - 1)),
    }
}

/// Returns the target of a reference.
fn referenced<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    let target = schema.get("$ref").and_then(Value::as_str)?;
    root.pointer(target.trim_start_matches('#'))
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|name| schema.get(name).and_then(Value::as_array));
    lists.flatten()
}
