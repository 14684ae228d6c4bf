//! Describes JSON values as values of expressions: the names of their types, their form inside longer text, and their
//! parts.

use serde_json::Value;

/// Returns the name of the value's type in the language.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(n) if n.is_f64() => "a float",
        Value::Number(_) => "an int",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Formats a value inside longer text: a string as it is, null as nothing, anything else as compact JSON.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Indexes `list[int]` from 0, or `map["key"]`. Errors, as texts: incorrect types, a missing item.
pub fn index(base: &Value, index: &Value) -> Result<Value, String> {
    match (base, index) {
        (Value::Array(items), Value::Number(n)) => {
            let position = n.as_u64().and_then(|i| usize::try_from(i).ok());
            let found = position.and_then(|i| items.get(i));
            found
                .cloned()
                .ok_or_else(|| format!("index {n} is outside of this list of {} (the first is 0)", items.len()))
        }
        (Value::Object(map), Value::String(key)) => map.get(key).cloned().ok_or_else(|| {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("this map has no key `{key}`; it has {}", keys.join(", "))
        }),
        _ => Err(format!("{} cannot be indexed by {}", type_name(base), type_name(index))),
    }
}
