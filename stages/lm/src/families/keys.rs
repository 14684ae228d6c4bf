//! Reads typed values from `config.json`, with errors that name the key.

use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// The content of a `config.json`; a null key counts as absent.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a>(pub &'a Map<String, Value>);

impl<'a> Keys<'a> {
    /// Returns the value of a key that is present and not null.
    pub fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }
    /// Returns an error for the value of `key` that shows the value and the expected form `what`.
    pub fn wrong(key: &str, what: &str, value: &Value) -> Error {
        Error::data(format!("config.json: `{key}` is {value}, not {what}"))
    }
    /// Returns the text of a required key.
    pub fn text(&self, key: &str) -> Result<&'a str> {
        let value = self.need(key)?;
        value.as_str().ok_or_else(|| Self::wrong(key, "a text", value))
    }
    /// Returns the integer of a required key.
    pub fn size(&self, key: &str) -> Result<usize> {
        let value = self.need(key)?;
        value.as_u64().map(|v| v as usize).ok_or_else(|| Self::wrong(key, "a whole number", value))
    }
    /// Returns the integer of a key, or `default` if the key is absent.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.present(key).is_some() { self.size(key) } else { Ok(default) }
    }
    /// Returns the number of a key, or `default` if the key is absent.
    pub fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        self.present(key).map_or(Ok(default), |v| v.as_f64().ok_or_else(|| Self::wrong(key, "a number", v)))
    }
    /// Returns the number of a required key.
    pub fn number(&self, key: &str) -> Result<f64> {
        let value = self.need(key)?;
        value.as_f64().ok_or_else(|| Self::wrong(key, "a number", value))
    }
    /// Returns the list of numbers of a required key.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>> {
        let value = self.need(key)?;
        let list = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        list.ok_or_else(|| Self::wrong(key, "a list of numbers", value))
    }
    /// Returns the boolean of a key, or `default` if the key is absent.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool> {
        self.present(key).map_or(Ok(default), |v| v.as_bool().ok_or_else(|| Self::wrong(key, "true or false", v)))
    }
    /// Rejects an unsupported option. Errors: invalid, if the key is present with a value other than `allowed`.
    pub fn refuse(&self, key: &str, allowed: &Value) -> Result<()> {
        match self.present(key).filter(|v| *v != allowed) {
            None => Ok(()),
            Some(value) => Err(Error::invalid(format!("config.json: `{key}` = {value} is not supported"))
                .help("use a model without it")),
        }
    }
    /// Returns the number of labels of a classifier.
    pub fn labels(&self) -> Result<usize> {
        match self.present("id2label") {
            Some(v) => v
                .as_object()
                .map(Map::len)
                .filter(|n| *n > 0)
                .ok_or_else(|| Self::wrong("id2label", "a map with entries", v)),
            None => self.size_or("num_labels", 2),
        }
    }
    fn need(&self, key: &str) -> Result<&'a Value> {
        self.present(key).ok_or_else(|| Error::data(format!("config.json: `{key}` is missing")))
    }
}
