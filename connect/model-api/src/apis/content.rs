//! Reads the content of messages: a text, or a list of parts.

use super::fields::{FieldResult, RequestFields, wrong};
use crate::error::ModelApiError;
use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_tables::Message;

/// Types of text parts, with the key of their text.
const TEXTS: [(&str, &str); 6] = [
    ("text", "text"),
    ("input_text", "text"),
    ("output_text", "text"),
    ("refusal", "refusal"),
    ("summary_text", "text"),
    ("reasoning_text", "text"),
];

/// Returns the text of a content: the text itself, or the concatenated texts of a list of parts. Returns an empty text
/// for an absent value or null.
pub fn text(value: Option<&Value>, path: &str) -> FieldResult<String> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let part = |(i, part): (usize, &Value)| part_text(part, &format!("{path}[{i}]"));
            parts.iter().enumerate().map(part).collect()
        }
        Some(_) => Err(wrong(path, format!("`{path}` must be a text or a list of parts"))),
    }
}

/// Returns the text of one part.
pub fn part_text(part: &Value, path: &str) -> FieldResult<String> {
    if let Some(text) = part.as_str() {
        return Ok(text.to_string());
    }
    let fields = RequestFields::new(part, path)?;
    let kind = fields.required("type")?;
    match TEXTS.iter().find(|(known, _)| *known == kind) {
        Some((_, key)) => fields.required(key).map(str::to_string),
        None => Err(not_text(path, kind)),
    }
}

/// Returns the refusal of a part that is not text.
pub fn not_text(path: &str, kind: &str) -> ModelApiError {
    let message =
        format!("`{path}` is of the type `{kind}`, but this server supports only text; send its text instead");
    wrong(path, message).code("unsupported_content")
}

/// Checks that a conversation has messages, and that each tool result follows a call with its id.
pub fn expect_conversation(messages: &[Message], path: &str) -> FieldResult<()> {
    if messages.is_empty() {
        return Err(wrong(path, format!("`{path}` is empty; send at least one message")));
    }
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (i, message) in messages.iter().enumerate() {
        if let Some(calls) = &message.tool_calls {
            let calls: Value = serde_json::from_str(calls).unwrap_or_default();
            open.extend(calls.as_array().into_iter().flatten().filter_map(|call| Some(call["id"].as_str()?.into())));
        }
        if message.role == "tool" {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            if !open.contains(id) {
                let message = format!(
                    "message {i} is the result of the tool call `{id}`, but no assistant's message before it makes \
                     this call; send the message with the call too"
                );
                return Err(wrong(path, message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_parts_are_joined_and_images_are_rejected() {
        let of = |value: Value| text(Some(&value), "messages[0].content");
        assert_eq!(of(json!("a")).unwrap(), "a");
        assert_eq!(
            of(json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"])).unwrap(),
            "abc"
        );
        assert_eq!(of(json!(null)).unwrap() + &text(None, "x").unwrap(), "");
        let refusal = of(json!([{"type": "image_url", "image_url": {"url": "x"}}])).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some("messages[0].content[0]"));
        assert!(refusal.message.contains("`image_url`"), "{}", refusal.message);
        assert!(of(json!(3)).is_err() && of(json!([{"text": "a"}])).is_err() && of(json!([{"type": "text"}])).is_err());
    }

    #[test]
    fn tool_result_requires_its_call() {
        let call = Message { tool_calls: Some(r#"[{"id": "a"}]"#.into()), ..Message::new("assistant", "") };
        let result = |id: &str| Message { tool_call_id: Some(id.into()), ..Message::new("tool", "2") };
        expect_conversation(&[Message::new("user", "x"), call.clone(), result("a")], "messages").unwrap();
        let refusal = expect_conversation(&[call, result("b")], "messages").unwrap_err();
        assert!(refusal.message.contains("message 1 is the result of the tool call `b`"), "{}", refusal.message);
        assert!(expect_conversation(&[result("a")], "messages").is_err() && expect_conversation(&[], "m").is_err());
    }
}
