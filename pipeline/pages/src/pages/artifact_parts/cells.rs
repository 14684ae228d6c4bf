//! Cells of tables, on one line or a few.

use crate::text::{cut, number};
use maud::{Markup, html};
use serde_json::Value;

/// Maximum characters of a cell.
const CELL: usize = 240;
/// Messages of a cell; more do not fit into it.
const MESSAGES: usize = 20;

/// Shows a value as a cell of a table.
pub fn cell(value: &Value) -> Markup {
    match value {
        Value::Null => html! { td .muted { "null" } },
        Value::Bool(value) => html! { td { (value) } },
        Value::Number(value) => match value.as_f64().filter(|_| value.is_f64()) {
            Some(value) => html! { td .n { (number(value)) } },
            None => html! { td .n { (value.to_string()) } },
        },
        Value::String(text) => html! { td .wide { (short(text)) } },
        Value::Array(items) => match messages(items) {
            Some(text) => html! { td .wide { (short(&text)) } },
            None => html! { td .wide.mono { (short(&value.to_string())) } },
        },
        Value::Object(_) => html! { td .wide.mono { (short(&value.to_string())) } },
    }
}

/// Returns messages of a conversation as `role: text`; `None` if an item is no message.
fn messages(items: &[Value]) -> Option<String> {
    let message = |item: &Value| {
        let text = match item.get("content")? {
            Value::String(text) => text.as_str(),
            Value::Null => item.get("tool_calls").and_then(Value::as_str).unwrap_or_default(),
            _ => return None,
        };
        Some(format!("{}: {text}", item.get("role")?.as_str()?))
    };
    let shown: Vec<String> = items.iter().take(MESSAGES).map(message).collect::<Option<_>>()?;
    (!shown.is_empty()).then(|| shown.join(" · ") + if items.len() > MESSAGES { " · …" } else { "" })
}

fn short(text: &str) -> String {
    let (shown, more) = cut(text, CELL);
    if more > 0 { format!("{shown}…") } else { shown.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conversations_are_shown_as_text() {
        let call = json!({"role": "assistant", "content": null, "tool_calls": "[{\"name\":\"f\"}]"});
        let shown = cell(&json!([{"role": "user", "content": "2 < 3?", "tool_calls": null}, call])).into_string();
        assert_eq!(shown, "<td class=\"wide\">user: 2 &lt; 3? · assistant: [{&quot;name&quot;:&quot;f&quot;}]</td>");
        let many: Vec<Value> = (0..30).map(|_| json!({"role": "u", "content": "x"})).collect();
        assert!(cell(&Value::Array(many)).into_string().ends_with("u: x · …</td>"));
        for other in [json!([]), json!([1, 2]), json!([{"role": "user", "content": [1]}])] {
            assert!(cell(&other).into_string().starts_with("<td class=\"wide mono\">["), "{other}");
        }
    }
}
