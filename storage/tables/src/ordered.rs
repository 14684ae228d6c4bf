//! Rows for other programs as JSON whose objects keep their order.
//!
//! Readers of prompts see the order of keys: a chat template prints a tool's description as it comes. `serde_json`'s
//! maps sort them, so these rows have a form of their own.

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use std::io::Write;
use trainyard_core::{Error, Result};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Ordered {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number; NaN and infinities are written as null.
    Float(f64),
    /// Text.
    Text(String),
    /// JSON text that is written as it is.
    Written(String),
    /// A list.
    List(Vec<Ordered>),
    /// An object, its keys in the order in which they are written.
    Object(Vec<(String, Ordered)>),
}

impl Ordered {
    /// JSON text, to be written as it is, on one line. Errors: data, if it is none.
    pub fn written(text: &str) -> Result<Self> {
        serde_json::from_str::<&RawValue>(text).map_err(|e| Error::data(format!("it is no JSON: {e}")))?;
        Ok(Self::Written(text.replace(['\n', '\r'], " ")))
    }
    /// An object of these keys.
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
    /// A list of numbers.
    pub fn numbers<T: Into<i64>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(|value| Self::Int(value.into())).collect())
    }
    /// Its keys and values, if it is an object.
    pub fn keys(&self) -> &[(String, Self)] {
        if let Self::Object(keys) = self { keys } else { &[] }
    }
    /// The value of a key of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.keys().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
    /// The JSON text, without line breaks of its own.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::bug(format!("a row is no JSON: {e}")))
    }
}

impl From<&str> for Ordered {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<String> for Ordered {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Written(text) => {
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

/// Appends a row to JSON Lines. Errors: retryable, if `out` takes no more.
pub fn write_line(row: &Ordered, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", row.to_json()?).map_err(|e| Error::retryable(format!("a row cannot be written: {e}")))
}
