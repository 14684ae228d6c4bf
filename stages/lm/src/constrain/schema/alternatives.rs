//! Compiles `anyOf`, `oneOf` and `allOf`.

use super::SchemaCompiler;
use super::fields::{SchemaFields, unsupported};
use super::scalars::listed;
use crate::constrain::grammar::NodeId;
use serde_json::Value;
use trainyard_core::Result;

impl SchemaCompiler<'_> {
    /// Returns the node of the values of any alternative under `keyword`.
    pub(super) fn alternatives(&mut self, schema: &SchemaFields<'_>, keyword: &str) -> Result<NodeId> {
        schema.expect_only(&[keyword])?;
        let parts = schema.get(keyword).and_then(Value::as_array).filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| unsupported(&schema.at(keyword), "must be a list of schemas"))?;
        if keyword == "allOf" && parts.len() > 1 {
            return Err(unsupported(&schema.at(keyword), "has several schemas, which is not supported")
                .help("merge them into one"));
        }
        if keyword == "oneOf" && !self.are_disjoint(parts) {
            return Err(unsupported(&schema.at(keyword), "has schemas that may share values")
                .help("use `anyOf`, or give each object a required property with another `const`"));
        }
        let mut nodes = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            nodes.push(self.value(part, &format!("{}/{i}", schema.at(keyword)))?);
        }
        Ok(self.builder.choice(&nodes))
    }
    /// Returns whether it is certain that no value belongs to two of the schemas.
    fn are_disjoint(&self, schemas: &[Value]) -> bool {
        let resolved: Option<Vec<SchemaFields<'_>>> = schemas.iter().map(|schema| self.resolve(schema)).collect();
        let Some(resolved) = resolved else { return false };
        resolved.iter().enumerate().all(|(i, a)| resolved[..i].iter().all(|b| differ(a, b)))
    }
    fn resolve<'s>(&'s self, schema: &'s Value) -> Option<SchemaFields<'s>> {
        let map = schema.as_object()?;
        match map.get("$ref").and_then(Value::as_str) {
            None => Some(SchemaFields { map, path: "" }),
            Some(reference) => Some(SchemaFields { map: self.target(reference)?.as_object()?, path: "" }),
        }
    }
}

/// Returns whether two schemas have no type in common, or objects that a required property tells apart.
fn differ(a: &SchemaFields<'_>, b: &SchemaFields<'_>) -> bool {
    let (Ok(first), Ok(second)) = (a.types(), b.types()) else { return false };
    let numbers = |kinds: &[&str]| kinds.iter().any(|kind| ["integer", "number"].contains(kind));
    let shared = first.iter().any(|kind| second.contains(kind)) || numbers(&first) && numbers(&second);
    if !first.is_empty() && !second.is_empty() && !shared {
        return true;
    }
    let both_objects = first == ["object"] && second == ["object"];
    both_objects
        && constants(a).iter().any(|(name, values)| {
            constants(b)
                .iter()
                .any(|(other, others)| name == other && !values.iter().any(|value| others.contains(value)))
        })
}

/// Returns the required properties with listed values.
fn constants<'a>(schema: &SchemaFields<'a>) -> Vec<(&'a str, Vec<&'a Value>)> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let values = |name: &'a str| {
        let map = schema.get("properties")?.get(name)?.as_object()?;
        let values = listed(&SchemaFields { map, path: "" });
        (!values.is_empty()).then_some((name, values))
    };
    required.filter_map(values).collect()
}
