//! Writes tools as JSON text for chat templates, whose prompts show the order of keys.

use crate::tools::ToolSpec;
use serde_json::Value;

/// Keys of a tool and of a schema in their usual order. Other keys follow, sorted by name.
const ORDER: [&str; 8] = ["type", "function", "name", "description", "parameters", "enum", "items", "properties"];

/// Returns a list of tools in OpenAI's form. Required parameters come first, in the order of `required`.
pub fn tools_json(tools: &[ToolSpec]) -> String {
    let mut out = String::new();
    write(&tools.iter().map(ToolSpec::schema).collect(), &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by_key(|key| ORDER.iter().position(|k| k == key).unwrap_or(ORDER.len()));
            list('{', '}', keys.into_iter(), out, |key, out| {
                out.push_str(&format!("{}: ", Value::from(key.as_str())));
                match &map[key] {
                    Value::Object(properties) if key == "properties" => {
                        let required = map.get("required").and_then(Value::as_array);
                        let position = |name: &str| required.and_then(|list| list.iter().position(|r| r == name));
                        let mut names: Vec<&String> = properties.keys().collect();
                        names.sort_by_key(|name| position(name).unwrap_or(usize::MAX));
                        list('{', '}', names.into_iter(), out, |name, out| {
                            out.push_str(&format!("{}: ", Value::from(name.as_str())));
                            write(&properties[name], out);
                        });
                    }
                    other => write(other, out),
                }
            });
        }
        Value::Array(items) => list('[', ']', items.iter(), out, write),
        other => out.push_str(&other.to_string()),
    }
}

fn list<T>(open: char, close: char, items: impl Iterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    out.push(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_come_in_the_usual_order() {
        let parameters = json!({
            "type": "object", "required": ["query", "limit"],
            "properties": {
                "limit": {"type": "integer"}, "also": {"type": "array", "items": {"type": "string"}},
                "query": {"description": "Words.", "type": "string"},
            },
        });
        let tool = ToolSpec { name: "search".into(), description: "Finds \"pages\".".into(), parameters };
        let expected = "[{\"type\": \"function\", \"function\": {\"name\": \"search\", \
            \"description\": \"Finds \\\"pages\\\".\", \"parameters\": {\"type\": \"object\", \"properties\": {\
            \"query\": {\"type\": \"string\", \"description\": \"Words.\"}, \"limit\": {\"type\": \"integer\"}, \
            \"also\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, \
            \"required\": [\"query\", \"limit\"]}}}]";
        assert_eq!(tools_json(&[tool]), expected);
    }
}
