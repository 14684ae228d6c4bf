//! Compiles the schemas of objects and arrays.

use super::SchemaCompiler;
use super::fields::{SchemaFields, unsupported};
use crate::constrain::grammar::{ArrayRule, Node, NodeId, ObjectRule};
use serde_json::Value;
use trainyard_core::Result;

/// Maximum declared properties of an object.
const MAX_PROPERTIES: usize = 100;

impl SchemaCompiler<'_> {
    pub(super) fn object(&mut self, schema: &SchemaFields<'_>) -> Result<NodeId> {
        let declared: Vec<(&String, &Value)> =
            schema.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let additional = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        let mut members = declared;
        let mut undeclared = Vec::new();
        for name in &required {
            if !members.iter().any(|(declared, _)| declared == name) {
                if additional == &Value::Bool(false) {
                    return Err(unsupported(&schema.at("required"), &format!("names `{name}`, which is no property")));
                }
                undeclared.push((*name).to_string());
            }
        }
        members.extend(undeclared.iter().map(|name| (name, additional)));
        let (min, max) = (schema.count("minProperties")?.unwrap_or(0), schema.count("maxProperties")?);
        if min as usize > required.len() {
            return Err(unsupported(&schema.at("minProperties"), "is not supported beyond the required properties"));
        }
        if members.is_empty() && additional != &Value::Bool(false) {
            let value = self.value(additional, &schema.at("additionalProperties"))?;
            return Ok(self.free_object(value, max.unwrap_or(u32::MAX)));
        }
        if max.is_some_and(|max| (max as usize) < members.len()) {
            return Err(unsupported(&schema.at("maxProperties"), "is below the number of properties"));
        }
        if members.len() > MAX_PROPERTIES {
            let problem = format!("has {} properties, but the maximum is {MAX_PROPERTIES}", members.len());
            return Err(unsupported(schema.path, &problem));
        }
        self.closed_object(schema, &members, &required)
    }
    fn closed_object(
        &mut self,
        schema: &SchemaFields<'_>,
        members: &[(&String, &Value)],
        required: &[&str],
    ) -> Result<NodeId> {
        let (mut nodes, mut bits) = (Vec::new(), 0);
        let properties = schema.at("properties");
        let properties = SchemaFields { path: &properties, ..*schema };
        for (i, (name, value)) in members.iter().enumerate() {
            let value = self.value(value, &properties.at(name))?;
            let key = self.builder.literal(&Value::from(name.as_str()).to_string());
            nodes.push(self.builder.member(key, value));
            if required.contains(&name.as_str()) {
                bits |= 1_u128 << i;
            }
        }
        let rule = ObjectRule { members: nodes, required: bits, free: None, max_free: 0 };
        Ok(self.braces(Node::Object(rule)))
    }
    /// Returns the node of objects with any keys and the values of a node.
    pub(super) fn free_object(&mut self, value: NodeId, max: u32) -> NodeId {
        let key = self.builder.string(0, None);
        let member = self.builder.member(key, value);
        let rule = ObjectRule { members: Vec::new(), required: 0, free: Some(member), max_free: max };
        self.braces(Node::Object(rule))
    }
    fn braces(&mut self, members: Node) -> NodeId {
        let parts = [self.builder.literal("{"), self.builder.add(members)];
        self.builder.sequence(&parts)
    }
    pub(super) fn array(&mut self, schema: &SchemaFields<'_>) -> Result<NodeId> {
        if schema.get("uniqueItems").is_some_and(|unique| unique != &Value::Bool(false)) {
            return Err(unsupported(&schema.at("uniqueItems"), "is not supported"));
        }
        let (min, max) = (schema.count("minItems")?.unwrap_or(0), schema.count("maxItems")?.unwrap_or(u32::MAX));
        let mut prefix = Vec::new();
        for (i, value) in schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten().enumerate() {
            prefix.push(self.value(value, &format!("{}/{i}", schema.at("prefixItems")))?);
        }
        let item = match schema.get("items") {
            Some(Value::Bool(false)) => None,
            Some(value) => Some(self.value(value, &schema.at("items"))?),
            None => Some(self.any()),
        };
        if min > max || item.is_none() && min as usize > prefix.len() {
            return Err(unsupported(schema.path, "requires more items than it permits"));
        }
        Ok(self.brackets(ArrayRule { prefix, item, min, max }))
    }
    /// Returns the node of arrays of the values of a node.
    pub(super) fn free_array(&mut self, item: NodeId) -> NodeId {
        self.brackets(ArrayRule { prefix: Vec::new(), item: Some(item), min: 0, max: u32::MAX })
    }
    fn brackets(&mut self, rule: ArrayRule) -> NodeId {
        let parts = [self.builder.literal("["), self.builder.add(Node::Array(rule))];
        self.builder.sequence(&parts)
    }
}
