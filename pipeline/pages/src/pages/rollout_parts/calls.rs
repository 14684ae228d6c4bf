//! Arguments of tool calls as text.

use serde_json::Value;
use std::fmt::Write as _;

/// Formats arguments as `name: value`; a text of several lines is below its name.
pub fn arguments(arguments: &Value) -> String {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
    match parsed.as_ref().unwrap_or(arguments) {
        Value::Object(values) => {
            let mut text = String::new();
            for (name, value) in values {
                let value = plain(value);
                let separator = if value.contains('\n') { '\n' } else { ' ' };
                let _ = writeln!(text, "{name}:{separator}{value}");
            }
            text.trim_end().to_string()
        }
        Value::Null => String::new(),
        other => plain(other),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_names_and_values() {
        assert_eq!(arguments(&json!({"code": "a\nb", "n": 3})), "code:\na\nb\nn: 3");
        assert_eq!(arguments(&json!(r#"{"x": "y"}"#)), "x: y", "as servers send them");
        assert_eq!(arguments(&json!("plain")), "plain");
        assert_eq!(arguments(&Value::Null), "");
        assert_eq!(arguments(&json!([1, 2])), "[1,2]");
    }
}
