//! Represents rows for other programs as JSON whose objects keep the order of their keys.
//!
//! The order of keys matters in prompts, because a chat template prints a tool's description in the given order.
//! `serde_json`'s maps sort their keys, so these rows have a separate type.

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::Write;
use trainyard_core::{Error, Result};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderedValue {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Number; NaN and infinities are written as null.
    Float(f64),
    /// Text.
    Text(String),
    /// JSON text, written verbatim.
    RawJson(String),
    /// A list.
    List(Vec<OrderedValue>),
    /// Object, its keys in the order in which they are written.
    Object(Vec<(String, OrderedValue)>),
}

impl OrderedValue {
    /// Wraps JSON text, joined into one line, to be written verbatim. Errors: data, if it is not JSON.
    pub fn raw_json(text: &str) -> Result<Self> {
        serde_json::from_str::<&RawValue>(text).map_err(|e| Error::data(format!("not JSON: {e}")))?;
        Ok(Self::RawJson(text.replace(['\n', '\r'], " ")))
    }
    /// Converts a parsed JSON value; an integer beyond 64 bits becomes verbatim text.
    pub fn of_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.is_f64(), number.as_f64()) {
                (Some(integer), ..) => Self::Int(integer),
                (None, true, Some(value)) => Self::Float(value),
                _ => Self::RawJson(number.to_string()),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(items.iter().map(Self::of_json).collect()),
            Value::Object(keys) => {
                Self::Object(keys.iter().map(|(key, value)| (key.clone(), Self::of_json(value))).collect())
            }
        }
    }
    /// Builds an object of these keys.
    pub fn object<const N: usize>(keys: [(&str, Self); N]) -> Self {
        Self::Object(keys.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }
    /// Adds a key to an object, if there is a value.
    pub fn with(self, key: &str, value: Option<Self>) -> Self {
        match (self, value) {
            (Self::Object(mut keys), Some(value)) => {
                keys.push((key.to_string(), value));
                Self::Object(keys)
            }
            (other, _) => other,
        }
    }
    /// Builds a list of numbers.
    pub fn numbers<T: Into<i64>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(|value| Self::Int(value.into())).collect())
    }
    /// Returns the keys and values of an object; empty for other values.
    pub fn keys(&self) -> &[(String, Self)] {
        if let Self::Object(keys) = self { keys } else { &[] }
    }
    /// Returns the value of a key of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.keys().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
    /// Returns the JSON text, without added line breaks.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::bug(format!("a row is not JSON: {e}")))
    }
}

impl From<&str> for OrderedValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for OrderedValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Serialize for OrderedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::RawJson(text) => {
                serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer)
            }
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(keys) => {
                let mut map = serializer.serialize_map(Some(keys.len()))?;
                keys.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

/// Appends a row to JSON Lines. Errors: retryable, if `out` rejects a write.
pub fn write_line(row: &OrderedValue, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", row.to_json()?).map_err(|e| Error::retryable(format!("a row cannot be written: {e}")))
}
