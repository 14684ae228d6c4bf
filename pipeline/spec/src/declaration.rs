//! Describes the params of a workflow file, as forms and programs need them that set values.

use crate::expand::params::{Param, ParamType};
use crate::read::{BoundContent, BoundNode};
use serde::Serialize;
use serde_json::Value;

/// Declaration of a param, as plain data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParamDeclaration {
    /// Name in `-p`.
    pub name: String,
    /// Value of `type`.
    pub kind: &'static str,
    /// Type of a list's items, if declared.
    pub items: Option<&'static str>,
    /// Whether the param has a default.
    pub has_default: bool,
    /// Default as `-p` would take it; empty without a default, and for the default `null`.
    pub default: String,
    /// Least value, inclusive; in seconds or bytes for durations and sizes.
    pub min: Option<f64>,
    /// Greatest value, inclusive.
    pub max: Option<f64>,
    /// Allowed values as `-p` would take them; empty if all are.
    pub choices: Vec<String>,
    /// Text of the file for its readers.
    pub description: Option<String>,
    /// Whether only an embedding file can set the param, since it takes an artifact.
    pub is_artifact: bool,
}

impl ParamDeclaration {
    /// Describes a declaration of a file.
    pub fn of(param: &Param) -> Self {
        Self {
            name: param.name.clone(),
            kind: param.kind.name(),
            items: param.items.map(ParamType::name),
            has_default: param.default.is_some(),
            default: param.default.as_ref().map(default_text).unwrap_or_default(),
            min: param.min,
            max: param.max,
            choices: param.choices.iter().map(written).collect(),
            description: param.description.clone(),
            is_artifact: matches!(param.kind, ParamType::Artifact(_)),
        }
    }
}

/// Returns a default as written in the file, since `1e3` may be a text.
fn default_text(bound: &BoundNode) -> String {
    match &bound.content {
        BoundContent::Scalar(scalar) if !bound.is_null() => scalar.text.clone(),
        _ => bound.value().as_ref().map(written).unwrap_or_default(),
    }
}

/// Writes a value as an argument of `-p`.
fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
