//! Compiles JSON Schemas to grammars of their values.
//!
//! A grammar may write fewer values than a schema permits and never others: properties that an object does not declare
//! are written only where it declares none, and integers have at most 15 digits. A keyword that must be checked after
//! the value is written (`pattern`, `uniqueItems`, `not`) is refused with its place.

mod alternatives;
mod containers;
mod fields;
mod formats;
mod scalars;

use super::grammar::{GrammarBuilder, Node, NodeId};
use fields::{SchemaFields, unsupported};
use serde_json::Value;
use std::collections::HashMap;
use trainyard_core::{Error, Result};

/// Maximum length of a schema as JSON text.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum nesting of a schema.
const MAX_DEPTH: usize = 64;

/// Compiler of one schema and the definitions that it refers to.
pub struct SchemaCompiler<'a> {
    builder: &'a mut GrammarBuilder,
    root: &'a Value,
    /// Nodes of the places that `$ref` names.
    references: HashMap<String, NodeId>,
    any: Option<NodeId>,
    depth: usize,
}

impl<'a> SchemaCompiler<'a> {
    /// Creates a compiler of `root`, which adds its nodes to `builder`.
    pub fn new(builder: &'a mut GrammarBuilder, root: &'a Value) -> Self {
        Self { builder, root, references: HashMap::new(), any: None, depth: 0 }
    }
    /// Returns the node of all values of the schema. Errors: invalid, for a schema that is too large, or with a keyword
    /// that is not supported.
    pub fn compile(mut self) -> Result<NodeId> {
        let length = self.root.to_string().len();
        if length > MAX_BYTES {
            return Err(Error::invalid(format!("the schema has {length} bytes, but the maximum is {MAX_BYTES}"))
                .help("remove descriptions, or split the schema"));
        }
        self.value(self.root, "")
    }
    /// Returns the node of all JSON objects.
    pub fn any_object(builder: &mut GrammarBuilder) -> NodeId {
        let root = Value::Bool(true);
        let mut compiler = SchemaCompiler::new(builder, &root);
        let any = compiler.any();
        compiler.free_object(any, u32::MAX)
    }
    /// Returns the node of the values of a schema at a place of the root.
    fn value(&mut self, schema: &Value, path: &str) -> Result<NodeId> {
        if self.builder.is_full() || self.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("the schema is too large or too deep at `{path}/`"))
                .help("split it into smaller schemas"));
        }
        self.depth += 1;
        let node = match schema {
            Value::Bool(true) => Ok(self.any()),
            Value::Object(map) => self.object_schema(&SchemaFields { map, path }),
            _ => Err(unsupported(path, "is no schema with values")),
        };
        self.depth -= 1;
        node
    }
    fn object_schema(&mut self, schema: &SchemaFields<'_>) -> Result<NodeId> {
        if let Some(reference) = schema.get("$ref") {
            schema.expect_only(&["$ref"])?;
            return self.reference(reference, &schema.at("$ref"));
        }
        if schema.get("enum").is_some() || schema.get("const").is_some() {
            return self.values(schema);
        }
        if let Some(parts) = ["anyOf", "oneOf", "allOf"].into_iter().find(|key| schema.get(key).is_some()) {
            return self.alternatives(schema, parts);
        }
        let types = schema.types()?;
        if types.is_empty() {
            schema.expect_only(&[])?;
            return Ok(self.any());
        }
        let keywords: Vec<&str> = types.iter().flat_map(|kind| fields::keywords_of(kind)).copied().collect();
        schema.expect_only(&keywords)?;
        let nodes: Vec<NodeId> = types.iter().map(|kind| self.of_type(kind, schema)).collect::<Result<_>>()?;
        Ok(self.builder.choice(&nodes))
    }
    fn of_type(&mut self, kind: &str, schema: &SchemaFields<'_>) -> Result<NodeId> {
        match kind {
            "null" => Ok(self.builder.literal("null")),
            "boolean" => {
                let both = ["true", "false"].map(|text| self.builder.literal(text));
                Ok(self.builder.choice(&both))
            }
            "integer" => self.number(schema, true),
            "number" => self.number(schema, false),
            "string" => self.text(schema),
            "array" => self.array(schema),
            "object" => self.object(schema),
            other => Err(unsupported(&schema.at("type"), &format!("is `{other}`, which is no type of JSON"))),
        }
    }
    fn reference(&mut self, reference: &Value, path: &str) -> Result<NodeId> {
        let target = reference.as_str().unwrap_or_default();
        if let Some(node) = self.references.get(target) {
            return Ok(*node);
        }
        let Some(found) = self.target(target) else {
            return Err(unsupported(path, &format!("is `{target}`, which the schema does not define")));
        };
        // The place is known before its values are, because it may be part of itself.
        let node = self.builder.add(Node::Recursive(0));
        self.references.insert(target.to_string(), node);
        let inner = self.value(found, target)?;
        self.builder.set(node, Node::Recursive(inner));
        Ok(node)
    }
    /// Returns the schema that a `$ref` names.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
    /// Returns the node of all JSON values.
    fn any(&mut self) -> NodeId {
        if let Some(any) = self.any {
            return any;
        }
        let any = self.builder.add(Node::Recursive(0));
        self.any = Some(any);
        let object = self.free_object(any, u32::MAX);
        let array = self.free_array(any);
        let string = self.builder.string(0, None);
        let number = self.any_number();
        let words = ["true", "false", "null"].map(|text| self.builder.literal(text));
        let inner = self.builder.choice(&[object, array, string, number, words[0], words[1], words[2]]);
        self.builder.set(any, Node::Recursive(inner));
        any
    }
}
