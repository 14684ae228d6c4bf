//! Lists the options of a JSON Schema with types, defaults and documentation, for pages in a terminal and a browser.

use serde_json::Value;

/// Depth of nested options that are listed.
const MAX_DEPTH: usize = 4;
/// Depth of nested types that are named; a schema may refer to itself.
const MAX_TYPES: usize = 16;

/// Option of a stage kind or part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionRow {
    /// Path of the option, as `loss.clip`.
    pub path: String,
    /// Name of the option: the last part of the path.
    pub name: String,
    /// Name of the type, as `integer` or `low | high`.
    pub kind: String,
    /// Default as JSON.
    pub default: Option<String>,
    /// Documentation.
    pub doc: String,
    /// Nesting, from 0.
    pub depth: usize,
}

/// Lists the options of a schema in its order, nested ones below their option.
pub fn options(schema: &Value) -> Vec<OptionRow> {
    let mut rows = Vec::new();
    add(&mut rows, schema, schema, "", 0);
    rows
}

fn add(rows: &mut Vec<OptionRow>, root: &Value, schema: &Value, above: &str, depth: usize) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        let resolved = resolve(root, property);
        let doc = property.get("description").or_else(|| resolved.get("description")).and_then(Value::as_str);
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        rows.push(OptionRow {
            path: path.clone(),
            name: name.clone(),
            kind: type_name(root, resolved, 0),
            default: property.get("default").map(ToString::to_string),
            doc: doc.unwrap_or_default().to_string(),
            depth,
        });
        if depth + 1 < MAX_DEPTH {
            add(rows, root, resolved, &path, depth + 1);
        }
    }
}

/// Follows a `$ref`, also through an `anyOf` or `allOf` with a single member that is not null.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str);
    if let Some(target) = target.and_then(|path| root.pointer(path.trim_start_matches('#'))) {
        return target;
    }
    let members = schema.get("anyOf").or_else(|| schema.get("allOf")).and_then(Value::as_array);
    let mut others = members.into_iter().flatten().filter(|member| member["type"] != "null");
    match (others.next(), others.next()) {
        (Some(only), None) => resolve(root, only),
        _ => schema,
    }
}

fn type_name(root: &Value, schema: &Value, depth: usize) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return joined(values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_string)));
    }
    if let Some(branches) = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array) {
        return joined(branches.iter().map(|branch| branch_name(root, branch, depth)));
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" && depth < MAX_TYPES => {
            let items = schema.get("items").map(|items| type_name(root, resolve(root, items), depth + 1));
            format!("list of {}", items.unwrap_or_else(|| "any".to_string()))
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => joined(names.iter().filter_map(Value::as_str).map(str::to_string)),
        _ => "any".to_string(),
    }
}

fn branch_name(root: &Value, branch: &Value, depth: usize) -> String {
    let resolved = resolve(root, branch);
    let constant = resolved.get("const").or_else(|| resolved.pointer("/properties/kind/const"));
    match constant.and_then(Value::as_str) {
        Some(name) if resolved.get("properties").is_some() => format!("{{kind: {name}, …}}"),
        Some(name) => name.to_string(),
        None if depth < MAX_TYPES => type_name(root, resolved, depth + 1),
        None => "any".to_string(),
    }
}

fn joined(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_have_types_defaults_and_nesting() {
        let schema = json!({
            "properties": {
                "loss": {"anyOf": [{"$ref": "#/$defs/Loss"}, {"type": "null"}]},
                "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1]},
                "mode": {"enum": ["low", "high"], "description": "Mode of the test."},
                "parts": {"oneOf": [
                    {"properties": {"kind": {"const": "clip"}}}, {"const": "none"}, {"type": "string"},
                ]},
            },
            "$defs": {"Loss": {"description": "Loss.", "type": "object", "properties": {"clip": {"type": "number"}}}},
        });
        let rows = options(&schema);
        let shown: Vec<(&str, &str, Option<&str>, &str)> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.kind.as_str(), row.default.as_deref(), row.doc.as_str()))
            .collect();
        let find = |path: &str| *shown.iter().find(|row| row.0 == path).unwrap();
        assert_eq!(find("loss"), ("loss", "object", None, "Loss."));
        assert_eq!(find("loss.clip"), ("loss.clip", "number", None, ""));
        assert_eq!(find("sizes"), ("sizes", "list of integer", Some("[1]"), ""));
        assert_eq!(find("mode"), ("mode", "low | high", None, "Mode of the test."));
        assert_eq!(find("parts").1, "{kind: clip, …} | none | string");
        assert!(options(&json!({})).is_empty());
    }

    #[test]
    fn recursive_schemas_end() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "oneOf": [{"$ref": "#/$defs/A"}]}},
        });
        assert_eq!(options(&schema).last().unwrap().path, "a.a.a.a");
    }
}
