//! Converts the messages of a trajectory to those of Inspect.

use crate::export::call_ids::{CallIds, object_arguments};
use crate::export::conversation::ExportMessage;
use crate::export::omissions::ExportOmissions;
use crate::tool_text::RawToolCall;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_tables::{OrderedValue, Trajectory, answers_in_prompt};

/// Returns the number of messages before the agent's first turn.
pub fn prompt_length(row: &Trajectory) -> usize {
    let mut turns = (0..row.messages.len()).filter(|i| row.messages[*i].role == "assistant");
    turns.nth(answers_in_prompt(row)).unwrap_or(row.messages.len())
}

/// Converts all messages of a trajectory.
pub fn messages(
    row: &Trajectory,
    exported: &[ExportMessage<'_>],
    model: &str,
    omissions: &mut ExportOmissions,
) -> Result<Vec<OrderedValue>> {
    let prompt = prompt_length(row);
    let (mut ids, mut functions) = (CallIds::default(), BTreeMap::new());
    let convert = |(i, one): (usize, &ExportMessage<'_>)| {
        let base = vec![
            ("id".to_string(), OrderedValue::from(format!("{}-{}", row.id, i + 1))),
            ("content".to_string(), content(one)),
        ];
        let source = if i < prompt { Some("input") } else { (one.message.role == "assistant").then_some("generate") };
        let base = OrderedValue::Object(base).with("source", source.map(OrderedValue::from));
        let base = base.with("metadata", metadata(one));
        Ok(match one.message.role.as_str() {
            "assistant" => {
                ids.begin_turn();
                assistant(base, one, &mut ids, &mut functions, omissions)?.with("model", Some(model.into()))
            }
            "tool" => {
                let id = ids.result_id(one.message);
                let called = id.as_ref().and_then(|id| functions.get(id)).cloned();
                base.with("role", Some("tool".into()))
                    .with("tool_call_id", id.map(OrderedValue::from))
                    .with("function", one.message.name.clone().or(called).map(OrderedValue::from))
            }
            "user" => base.with("role", Some("user".into())),
            _ => base.with("role", Some("system".into())),
        })
    };
    exported.iter().enumerate().map(convert).collect()
}

/// Returns the text of a message, after its reasoning if it has any.
fn content(exported: &ExportMessage<'_>) -> OrderedValue {
    let text = OrderedValue::from(exported.text.as_str());
    let Some(reasoning) = exported.message.reasoning_content.as_deref() else { return text };
    OrderedValue::List(vec![
        OrderedValue::object([("type", "reasoning".into()), ("reasoning", reasoning.into())]),
        OrderedValue::object([("type", "text".into()), ("text", text)]),
    ])
}

/// Returns the fields of a message that Inspect's messages lack.
fn metadata(exported: &ExportMessage<'_>) -> Option<OrderedValue> {
    let message = exported.message;
    let role = message.role.as_str();
    let name = message.name.as_deref().filter(|_| role != "tool");
    let other = !matches!(role, "assistant" | "system" | "tool" | "user");
    let fields = OrderedValue::Object(Vec::new())
        .with("weight", exported.is_context.then_some(OrderedValue::Int(0)))
        .with("name", name.map(OrderedValue::from))
        .with("role", other.then(|| role.into()));
    (!fields.keys().is_empty()).then_some(fields)
}

fn assistant(
    base: OrderedValue,
    exported: &ExportMessage<'_>,
    ids: &mut CallIds,
    functions: &mut BTreeMap<String, String>,
    omissions: &mut ExportOmissions,
) -> Result<OrderedValue> {
    let mut call = |one: &RawToolCall| {
        let id = ids.call_id(one);
        functions.insert(id.clone(), one.name.clone());
        Ok(OrderedValue::object([
            ("id", id.into()),
            ("function", one.name.as_str().into()),
            ("arguments", object_arguments(one, omissions)?),
            ("type", "function".into()),
        ]))
    };
    let calls = exported.calls.iter().map(&mut call).collect::<Result<Vec<_>>>()?;
    Ok(base
        .with("role", Some("assistant".into()))
        .with("tool_calls", (!calls.is_empty()).then_some(OrderedValue::List(calls))))
}
