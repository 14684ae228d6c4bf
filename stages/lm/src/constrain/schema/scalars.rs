//! Compiles the schemas of strings, numbers and listed values.

use super::SchemaCompiler;
use super::fields::{SchemaFields, unsupported};
use super::formats;
use crate::constrain::grammar::{Node, NodeId};
use crate::constrain::number::{NumberBounds, NumberRule};
use serde_json::Value;
use trainyard_core::Result;

impl SchemaCompiler<'_> {
    pub(super) fn number(&mut self, schema: &SchemaFields<'_>, integer: bool) -> Result<NodeId> {
        if let Some(step) = schema.number("multipleOf")?
            && !(integer && step == 1.0)
        {
            return Err(unsupported(&schema.at("multipleOf"), "is not supported"));
        }
        let bounds = NumberBounds {
            minimum: schema.number("minimum")?,
            maximum: schema.number("maximum")?,
            above: schema.number("exclusiveMinimum")?,
            below: schema.number("exclusiveMaximum")?,
        };
        let rule = NumberRule::new(integer, bounds)
            .ok_or_else(|| unsupported(schema.path, "has bounds without a number between them"))?;
        Ok(self.builder.add(Node::Number(rule)))
    }
    pub(super) fn any_number(&mut self) -> NodeId {
        match NumberRule::new(false, NumberBounds::default()) {
            Some(rule) => self.builder.add(Node::Number(rule)),
            None => self.builder.literal("0"),
        }
    }
    pub(super) fn text(&mut self, schema: &SchemaFields<'_>) -> Result<NodeId> {
        let (min, max) = (schema.count("minLength")?.unwrap_or(0), schema.count("maxLength")?);
        if max.is_some_and(|max| max < min) {
            return Err(unsupported(schema.path, "has a `maxLength` below its `minLength`"));
        }
        let Some(format) = schema.get("format") else { return Ok(self.builder.string(min, max)) };
        let format = format.as_str().unwrap_or_default();
        let Some((node, length)) = formats::node(self.builder, format) else {
            let problem = format!("is `{format}`; supported are {}", formats::NAMES.join(", "));
            return Err(unsupported(&schema.at("format"), &problem).help("describe the form in the prompt instead"));
        };
        if min > length || max.is_some_and(|max| max < length) {
            return Err(unsupported(schema.path, "bounds the length of a text whose format has another length"));
        }
        Ok(node)
    }
    /// Returns the node of the values that `enum` or `const` lists.
    pub(super) fn values(&mut self, schema: &SchemaFields<'_>) -> Result<NodeId> {
        schema.expect_only(&["enum", "const", "type"])?;
        let types = schema.types()?;
        let listed = listed(schema);
        let fits = |value: &&Value| types.is_empty() || types.iter().any(|kind| has_type(value, kind));
        let texts: Vec<String> = listed.iter().copied().filter(fits).map(Value::to_string).collect();
        if texts.is_empty() {
            return Err(unsupported(schema.path, "lists no value of its type"));
        }
        let nodes: Vec<NodeId> = texts.iter().map(|text| self.builder.literal(text)).collect();
        Ok(self.builder.choice(&nodes))
    }
}

/// Returns the values that both `enum` and `const` permit.
pub fn listed<'a>(schema: &SchemaFields<'a>) -> Vec<&'a Value> {
    let one = schema.get("const");
    match schema.get("enum").and_then(Value::as_array) {
        None => one.into_iter().collect(),
        Some(list) => list.iter().filter(|value| one.is_none_or(|one| one == *value)).collect(),
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
        Value::Number(number) => {
            kind == "number" || kind == "integer" && number.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
    }
}
