//! Views one position of a JSON Schema as a set of alternatives: its types, properties and format, with `$ref`,
//! `allOf`, `anyOf`, `oneOf` and `if/then/else` flattened.
//!
//! The view serves the reading of values and hints; only the validator decides whether a value is valid.

use crate::files::SourceForm;
use serde_json::{Map, Value};

/// Schemas that may describe one position, with a common root.
#[derive(Debug, Clone)]
pub struct SchemaView<'s> {
    root: &'s Value,
    alternatives: Vec<&'s Value>,
}

/// Maximum number of alternatives; with more, hints would be useless.
const MAX_ALTERNATIVES: usize = 256;

impl<'s> SchemaView<'s> {
    /// Creates the view of the whole value that a schema describes.
    pub fn root(schema: &'s Value) -> Self {
        Self::of(schema, [schema])
    }

    fn of(root: &'s Value, schemas: impl IntoIterator<Item = &'s Value>) -> Self {
        let mut view = Self { root, alternatives: Vec::new() };
        for schema in schemas {
            view.add(schema);
        }
        view
    }

    fn add(&mut self, schema: &'s Value) {
        if !schema.is_object()
            || self.alternatives.len() >= MAX_ALTERNATIVES
            || self.alternatives.iter().any(|a| std::ptr::eq(*a, schema))
        {
            return;
        }
        self.alternatives.push(schema);
        if let Some(target) =
            schema.get("$ref").and_then(Value::as_str).and_then(|r| self.root.pointer(r.strip_prefix('#')?))
        {
            self.add(target);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.add(part);
            }
        }
        for keyword in ["then", "else"] {
            if let Some(part) = schema.get(keyword) {
                self.add(part);
            }
        }
    }

    /// Returns the schemas of the value under a key.
    pub fn property(&self, key: &str) -> Self {
        let mut found = Vec::new();
        for schema in &self.alternatives {
            let named = schema.get("properties").and_then(|p| p.get(key));
            found.extend(named.or_else(|| schema.get("additionalProperties")));
        }
        Self::of(self.root, found)
    }

    /// Returns the schemas of the item at an index.
    pub fn item(&self, index: usize) -> Self {
        let at = |schema: &&'s Value| {
            let tuple = schema.get("prefixItems").and_then(|p| p.get(index));
            tuple.or_else(|| schema.get("items"))
        };
        Self::of(self.root, self.alternatives.iter().filter_map(at))
    }

    /// Returns the names of the properties, sorted.
    pub fn names(&self) -> Vec<String> {
        self.names_where(|_| true)
    }

    /// Returns the names of the properties of the part of this `kind`, sorted; empty if there is no such part.
    pub fn names_of_kind(&self, kind: &str) -> Vec<String> {
        self.names_where(|properties| {
            properties.get("kind").and_then(|of| of.get("const")).and_then(Value::as_str) == Some(kind)
        })
    }

    fn names_where(&self, wanted: impl Fn(&Map<String, Value>) -> bool) -> Vec<String> {
        let properties = self.alternatives.iter().filter_map(|s| s.get("properties").and_then(Value::as_object));
        let mut names: Vec<String> = properties.filter(|p| wanted(p)).flat_map(|p| p.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether a type is allowed; a schema that names none allows all.
    pub fn allows(&self, expected: &str) -> bool {
        let mut any_named = false;
        for schema in &self.alternatives {
            let named: Vec<&str> = match schema.get("type") {
                Some(Value::String(name)) => vec![name.as_str()],
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                _ => match schema.get("const") {
                    Some(constant) => vec![type_name(constant)],
                    None => schema.get("enum").and_then(Value::as_array).into_iter().flatten().map(type_name).collect(),
                },
            };
            any_named |= !named.is_empty();
            if named.contains(&expected) {
                return true;
            }
        }
        !any_named
    }

    /// Whether the declared types admit this value; a whole number counts as an integer and as a number.
    pub fn allows_value(&self, value: &Value) -> bool {
        let name = type_name(value);
        self.allows(name)
            || (name == "integer" && self.allows("number"))
            || (value.as_f64().is_some_and(|f| f.fract() == 0.0) && self.allows("integer"))
    }

    /// Whether the value is a file or folder whose content enters the stage digest.
    pub fn is_source(&self) -> bool {
        self.format_is("source") || self.source_form() != SourceForm::Exact
    }

    /// Whether the value is part of a command, where a word is a source if it names a file.
    pub fn is_command(&self) -> bool {
        self.format_is("command")
    }

    /// Returns the form of a source.
    pub fn source_form(&self) -> SourceForm {
        if self.format_is("sources") {
            SourceForm::Patterns
        } else if self.format_is("model") {
            SourceForm::Model
        } else {
            SourceForm::Exact
        }
    }

    fn format_is(&self, format: &str) -> bool {
        self.alternatives.iter().any(|s| s.get("format").and_then(Value::as_str) == Some(format))
    }

    /// Returns the range of a Rust integer type named by `format`.
    pub fn integer_range(&self) -> Option<(i128, i128)> {
        const FORMATS: [(&str, i128, i128); 10] = [
            ("int8", i8::MIN as i128, i8::MAX as i128),
            ("int16", i16::MIN as i128, i16::MAX as i128),
            ("int32", i32::MIN as i128, i32::MAX as i128),
            ("int64", i64::MIN as i128, i64::MAX as i128),
            ("int", i64::MIN as i128, i64::MAX as i128),
            ("uint8", 0, u8::MAX as i128),
            ("uint16", 0, u16::MAX as i128),
            ("uint32", 0, u32::MAX as i128),
            ("uint64", 0, u64::MAX as i128),
            ("uint", 0, u64::MAX as i128),
        ];
        FORMATS
            .into_iter()
            .filter(|(name, ..)| self.format_is(name))
            .map(|(_, min, max)| (min, max))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the allowed words, if the schema lists them.
    pub fn words(&self) -> Vec<&'s str> {
        let mut words: Vec<&str> = Vec::new();
        for schema in &self.alternatives {
            words.extend(schema.get("const").and_then(Value::as_str));
            words.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str));
        }
        words.sort_unstable();
        words.dedup();
        words
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
