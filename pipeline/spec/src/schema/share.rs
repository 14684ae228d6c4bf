//! Moves repeated parts of a JSON Schema into shared definitions.
//!
//! Each stage kind's schema is self-contained, and kinds have options in common (environments, rewards, sampling).
//! Without this pass the schema of all kinds would contain these options once per kind. Only schemas are moved (a map
//! of `properties` is not one), and only schemas larger than the reference to them.

use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Bytes of compact JSON from which a schema is moved, since a reference is then shorter.
const SMALLEST: usize = 300;
const MAPS: [&str; 3] = ["properties", "patternProperties", "$defs"];
const SINGLE: [&str; 6] = ["items", "additionalProperties", "if", "then", "else", "not"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Replaces equal sub-schemas by references to new entries of the root's `$defs`. The schema accepts the same values.
pub fn share(root: &mut Value) {
    let mut sharing = SchemaDedup::default();
    sharing.count(root);
    each_child(root, "", &mut |name, child| sharing.replace(name, child, 1));
    if let Some(Value::Object(definitions)) = root.get_mut("$defs") {
        definitions.extend(sharing.definitions);
    }
}

#[derive(Default)]
struct SchemaDedup {
    /// Compact JSON → number of occurrences.
    counts: HashMap<String, usize>,
    /// Compact JSON → its definition's name.
    names: HashMap<String, String>,
    definitions: Map<String, Value>,
}

impl SchemaDedup {
    fn count(&mut self, schema: &mut Value) {
        *self.counts.entry(schema.to_string()).or_default() += 1;
        each_child(schema, "", &mut |_, child| self.count(child));
    }

    /// Replaces shared schemas. `enclosing` is the number of occurrences of the enclosing schema; a schema with no more
    /// occurrences is not moved.
    fn replace(&mut self, name: &str, schema: &mut Value, enclosing: usize) {
        let text = schema.to_string();
        let count = self.counts.get(&text).copied().unwrap_or(1);
        if text.len() < SMALLEST || count <= enclosing {
            return each_child(schema, name, &mut |name, child| self.replace(name, child, enclosing));
        }
        let target = match self.names.get(&text) {
            Some(known) => known.clone(),
            None => self.define(name, text, schema.clone(), count),
        };
        *schema = json!({"$ref": format!("#/$defs/{target}")});
    }

    fn define(&mut self, name: &str, text: String, mut schema: Value, count: usize) -> String {
        let title = schema.get("title").and_then(Value::as_str).unwrap_or(name).to_string();
        let taken = |candidate: &String| self.definitions.contains_key(candidate);
        let numbered = (2..).map(|n| format!("shared.{title}.{n}"));
        let key = std::iter::once(format!("shared.{title}")).chain(numbered).find(|c| !taken(c)).unwrap_or_default();
        self.names.insert(text, key.clone());
        // Reserve the name before inner schemas are named.
        self.definitions.insert(key.clone(), Value::Null);
        each_child(&mut schema, name, &mut |name, child| self.replace(name, child, count));
        self.definitions.insert(key.clone(), schema);
        key
    }
}

/// Calls `visit` with every schema directly inside; the name is its key, or else that of the enclosing schema.
fn each_child(schema: &mut Value, name: &str, visit: &mut dyn FnMut(&str, &mut Value)) {
    let Value::Object(object) = schema else { return };
    for (keyword, value) in object.iter_mut() {
        let keyword = keyword.as_str();
        match value {
            Value::Object(map) if MAPS.contains(&keyword) => {
                map.iter_mut().for_each(|(key, child)| visit(key.rsplit('.').next().unwrap_or(key), child));
            }
            Value::Object(_) if SINGLE.contains(&keyword) => visit(name, value),
            Value::Array(list) if LISTS.contains(&keyword) => list.iter_mut().for_each(|child| visit(name, child)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expands all references, to the schema without sharing.
    fn spelled_out(root: &Value, at: &Value) -> Value {
        if let Some(target) = at.get("$ref").and_then(Value::as_str) {
            return spelled_out(root, &root["$defs"][target.trim_start_matches("#/$defs/")]);
        }
        match at {
            Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), spelled_out(root, v))).collect(),
            Value::Array(list) => list.iter().map(|v| spelled_out(root, v)).collect(),
            other => other.clone(),
        }
    }

    fn long(title: &str, inner: &Value) -> Value {
        json!({"type": "object", "title": title, "description": "x".repeat(SMALLEST), "properties": {"inner": inner}})
    }

    #[test]
    fn equal_schemas_become_one_and_the_meaning_stays() {
        let inner = json!({"type": "string", "description": "y".repeat(SMALLEST)});
        let outer = long("outer", &inner);
        let mut root =
            json!({"properties": {"a": outer, "b": {"anyOf": [outer, {"type": "null"}]}, "c": inner}, "$defs": {}});
        let before = root.clone();
        share(&mut root);
        let names: Vec<&String> = root["$defs"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["shared.inner", "shared.outer"]);
        assert_eq!(root["properties"]["a"], json!({"$ref": "#/$defs/shared.outer"}));
        assert_eq!(root["$defs"]["shared.outer"]["properties"]["inner"], json!({"$ref": "#/$defs/shared.inner"}));
        assert_eq!(spelled_out(&root, &root["properties"]), before["properties"]);
    }

    #[test]
    fn schema_used_only_inside_a_shared_one_is_not_moved() {
        let inner = json!({"type": "string", "description": "y".repeat(SMALLEST)});
        let outer = long("outer", &inner);
        let mut root = json!({"properties": {"a": outer, "b": outer}, "$defs": {}});
        share(&mut root);
        assert_eq!(root["$defs"], json!({"shared.outer": outer}));
    }

    #[test]
    fn duplicate_names_are_numbered() {
        let (one, two) = (long("same", &json!({})), long("same", &json!({"type": "null"})));
        let mut root = json!({"anyOf": [one, one, two, two], "$defs": {}});
        share(&mut root);
        assert_eq!(root["anyOf"][3], json!({"$ref": "#/$defs/shared.same.2"}));
    }

    #[test]
    fn a_map_of_properties_is_no_schema() {
        let properties: Map<String, Value> = (0..40).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let mut root = json!({
            "anyOf": [{"properties": properties, "title": "a"}, {"properties": properties, "title": "b"}],
            "$defs": {},
        });
        let before = root.clone();
        share(&mut root);
        assert_eq!(root, before);
    }
}
