//! Reads the keywords of a schema.

use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Keywords that restrict no value.
const ANNOTATIONS: [&str; 15] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "discriminator",
    "examples",
    "readOnly",
    "strict",
    "title",
    "writeOnly",
];

/// A schema and its place in the root.
#[derive(Debug, Clone, Copy)]
pub struct SchemaFields<'a> {
    pub map: &'a Map<String, Value>,
    pub path: &'a str,
}

/// Returns the error about a place of a schema.
pub fn unsupported(path: &str, problem: &str) -> Error {
    let place = if path.is_empty() { "the schema".to_string() } else { format!("`{path}` of the schema") };
    Error::invalid(format!("{place} {problem}"))
}

/// Returns the keywords that restrict the values of a type.
pub fn keywords_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "integer" | "number" => &["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
        "string" => &["type", "minLength", "maxLength", "format"],
        "array" => &["type", "items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
        "object" => &["type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"],
        _ => &["type"],
    }
}

impl<'a> SchemaFields<'a> {
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }
    /// Returns the place of a keyword.
    pub fn at(&self, key: &str) -> String {
        format!("{}/{}", self.path, key.replace('~', "~0").replace('/', "~1"))
    }
    /// Checks the keywords. Errors: one that is neither listed nor an annotation.
    pub fn expect_only(&self, listed: &[&str]) -> Result<()> {
        let known = |key: &str| listed.contains(&key) || ANNOTATIONS.contains(&key) || key.starts_with("x-");
        match self.map.keys().find(|key| !known(key)) {
            None => Ok(()),
            Some(key) => Err(unsupported(&self.at(key), "is a keyword that is not supported here")
                .help("remove it, and check the value after the response")),
        }
    }
    /// Returns the types, or those that the keywords imply; empty for any value.
    pub fn types(&self) -> Result<Vec<&'a str>> {
        let wrong = || unsupported(&self.at("type"), "must be a name or a list of names");
        match self.get("type") {
            Some(Value::String(kind)) => Ok(vec![kind.as_str()]),
            Some(Value::Array(kinds)) if !kinds.is_empty() => {
                kinds.iter().map(|kind| kind.as_str().ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
            None if self.get("properties").is_some() => Ok(vec!["object"]),
            None if self.get("items").is_some() || self.get("prefixItems").is_some() => Ok(vec!["array"]),
            None => Ok(Vec::new()),
        }
    }
    /// Returns a keyword that counts.
    pub fn count(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let whole = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=1e6).contains(n));
        whole.map(|n| Some(n as u32)).ok_or_else(|| unsupported(&self.at(key), "must be an integer from 0 to 1000000"))
    }
    /// Returns a keyword that is a number.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| unsupported(&self.at(key), "must be a number"))
    }
}
