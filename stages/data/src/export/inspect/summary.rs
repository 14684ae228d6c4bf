//! Shortens a sample to the row of the viewer's list.

use trainyard_tables::OrderedValue;

/// Number of characters of a text in a summary.
const TEXT: usize = 400;

/// Fields of a sample that its summary has unchanged.
const SAME: [&str; 8] = ["id", "epoch", "uuid", "model_usage", "role_usage", "turn_count", "scores", "target"];
/// Metadata in a summary.
const METADATA: [&str; 5] = ["environment", "level", "stop_reason", "turns", "update"];

/// Returns the summary of a sample.
pub fn summary(sample: &OrderedValue) -> OrderedValue {
    let field = |key: &str| sample.get(key).cloned().unwrap_or(OrderedValue::Null);
    let same = SAME.into_iter().map(|key| (key.to_string(), shortened(&field(key)))).collect();
    let metadata = sample.get("metadata");
    let kept = METADATA.into_iter().filter_map(|key| Some((key.to_string(), metadata?.get(key)?.clone())));
    let messages = match sample.get("messages") {
        Some(OrderedValue::List(messages)) => i64::try_from(messages.len()).unwrap_or(i64::MAX),
        _ => 0,
    };
    OrderedValue::Object(same)
        .with("input", Some(shortened(&question(sample))))
        .with("metadata", Some(OrderedValue::Object(kept.collect())))
        .with("limit", sample.get("limit").and_then(|limit| limit.get("type")).cloned())
        .with("completed", Some(OrderedValue::Bool(true)))
        .with("message_count", Some(OrderedValue::Int(messages)))
}

/// Returns the text of the last message of the prompt.
fn question(sample: &OrderedValue) -> OrderedValue {
    let last = match sample.get("input") {
        Some(OrderedValue::List(messages)) => messages.last(),
        _ => None,
    };
    match last.and_then(|message| message.get("content")) {
        Some(OrderedValue::Text(text)) => text.as_str().into(),
        _ => "".into(),
    }
}

/// Returns a value whose texts are cut.
fn shortened(value: &OrderedValue) -> OrderedValue {
    match value {
        OrderedValue::Text(text) => match text.char_indices().nth(TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]).into(),
            None => value.clone(),
        },
        OrderedValue::List(items) => OrderedValue::List(items.iter().map(shortened).collect()),
        OrderedValue::Object(keys) => {
            OrderedValue::Object(keys.iter().map(|(key, value)| (key.clone(), shortened(value))).collect())
        }
        _ => value.clone(),
    }
}
