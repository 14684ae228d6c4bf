//! Reads typed fields of a request within their ranges. A refusal names the field by its path.

use crate::error::ModelApiError;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// An object of a request, and its path.
#[derive(Debug, Clone, Copy)]
pub struct RequestFields<'a> {
    map: &'a Map<String, Value>,
    at: &'a str,
}

pub type FieldResult<T> = Result<T, ModelApiError>;

impl<'a> RequestFields<'a> {
    /// Wraps the object `value` at the path `at`; the path of the request itself is empty.
    pub fn new(value: &'a Value, at: &'a str) -> FieldResult<Self> {
        let name = if at.is_empty() { "the body" } else { at };
        let map = value.as_object().ok_or_else(|| wrong(at, format!("{name} must be a JSON object")))?;
        Ok(Self { map, at })
    }
    /// Returns the path of a field of this object.
    pub fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_string() } else { format!("{}.{key}", self.at) }
    }
    /// Returns a field, or `None` if it is absent or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }
    /// Returns the refusal of an invalid field.
    pub fn wrong(&self, key: &str, problem: &str) -> ModelApiError {
        let path = self.path(key);
        wrong(&path, format!("`{path}` {problem}"))
    }
    pub fn text(&self, key: &str) -> FieldResult<Option<&'a str>> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| self.wrong(key, "must be a text"));
        self.get(key).map(text).transpose()
    }
    /// Returns a required text.
    pub fn required(&self, key: &str) -> FieldResult<&'a str> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "is missing"))
    }
    pub fn flag(&self, key: &str) -> FieldResult<Option<bool>> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| self.wrong(key, "must be true or false"));
        self.get(key).map(flag).transpose()
    }
    /// Returns an integer within a range.
    pub fn count(&self, key: &str, range: RangeInclusive<u64>) -> FieldResult<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        // Clients send 5.0 for 5.
        let integer = value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n < 9e15).map(|n| n as u64);
        let count = value.as_u64().or(integer).filter(|count| range.contains(count));
        let (low, high) = (range.start(), range.end());
        let expected = if *high == u64::MAX {
            format!("an integer of at least {low}")
        } else {
            format!("an integer from {low} to {high}")
        };
        count.map(Some).ok_or_else(|| self.wrong(key, &format!("is {value}, but must be {expected}")))
    }
    /// Returns a number within a range.
    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> FieldResult<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| range.contains(number));
        let (low, high) = (range.start(), range.end());
        number.map(Some).ok_or_else(|| self.wrong(key, &format!("is {value}, but must be from {low} to {high}")))
    }
    pub fn list(&self, key: &str) -> FieldResult<Option<&'a Vec<Value>>> {
        let list = |value: &'a Value| value.as_array().ok_or_else(|| self.wrong(key, "must be a list"));
        self.get(key).map(list).transpose()
    }
    pub fn object(&self, key: &str) -> FieldResult<Option<&'a Map<String, Value>>> {
        let object = |value: &'a Value| value.as_object().ok_or_else(|| self.wrong(key, "must be an object"));
        self.get(key).map(object).transpose()
    }
    /// Rejects unsupported fields that would affect the response. A field is accepted if it is empty or has one of its
    /// listed values, which request the behavior of this server.
    pub fn expect_neutral(&self, fields: &[(&str, &[Value])]) -> FieldResult<()> {
        for (key, neutral) in fields {
            let Some(value) = self.get(key) else { continue };
            let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
            if !empty && !neutral.iter().any(|same| equal(same, value)) {
                return Err(self.unsupported(key));
            }
        }
        Ok(())
    }
    /// Returns the refusal of a field whose value is not supported.
    pub fn unsupported(&self, key: &str) -> ModelApiError {
        let problem = match self.get(key) {
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => format!("is {value}, which"),
            _ => "is set, which".to_string(),
        };
        self.wrong(key, &format!("{problem} this server does not support; remove it")).code("unsupported_parameter")
    }
    /// Returns the listed fields that are present, unchanged.
    pub fn copy(&self, keys: &[&str]) -> Map<String, Value> {
        keys.iter().filter_map(|key| Some((key.to_string(), self.map.get(*key)?.clone()))).collect()
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && a.as_f64() == b.as_f64())
}

/// Returns the refusal of the field at `path`; an empty path refuses the body.
pub fn wrong(path: &str, message: String) -> ModelApiError {
    if path.is_empty() { ModelApiError::new(400, message) } else { ModelApiError::invalid_field(path, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn invalid_field_is_reported_with_path() {
        let value = json!({"a": {"n": -1, "f": 0.5, "t": 3, "whole": 5.0, "none": null}});
        let fields = RequestFields::new(&value["a"], "a").unwrap();
        let refusal = fields.count("n", 1..=9).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some("a.n"));
        assert_eq!(refusal.message, "`a.n` is -1, but must be an integer from 1 to 9");
        assert_eq!(fields.number("f", 0.0..=1.0).unwrap(), Some(0.5));
        assert_eq!(fields.count("whole", 0..=9).unwrap(), Some(5));
        assert!(fields.count("f", 0..=9).is_err() && fields.text("t").is_err() && fields.required("none").is_err());
        assert!(fields.flag("t").is_err() && fields.list("t").is_err() && fields.object("t").is_err());
        assert_eq!(fields.text("none").unwrap(), None);
        assert_eq!(RequestFields::new(&json!([]), "").unwrap_err().message, "the body must be a JSON object");
    }

    #[test]
    fn only_neutral_values_are_accepted() {
        let value = json!({"penalty": 0.0, "bias": {}, "format": {"type": "json_object"}});
        let fields = RequestFields::new(&value, "").unwrap();
        fields.expect_neutral(&[("penalty", &[json!(0)]), ("bias", &[])]).unwrap();
        let refusal = fields.expect_neutral(&[("format", &[json!({"type": "text"})])]).unwrap_err();
        assert_eq!((refusal.code, refusal.param.as_deref()), (Some("unsupported_parameter"), Some("format")));
    }
}
