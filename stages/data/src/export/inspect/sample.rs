//! Converts a trajectory to a sample of Inspect.

use super::messages::{messages, prompt_length};
use super::scores::scores;
use crate::export::conversation::{self, ExportMessage, trajectory_messages};
use crate::export::facts::facts;
use crate::export::omissions::ExportOmissions;
use trainyard_core::{Digest, Result};
use trainyard_tables::{OrderedValue, StopReason, Trajectory};

/// Length of Inspect's ids.
pub const ID_LENGTH: usize = 22;

/// Returns the sample of a row, whose `uuid` is a digest of its content. Errors: data, if calls or tools are not JSON.
pub fn sample(row: &Trajectory, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let model = model(row);
    let exported = trajectory_messages(row, omissions)?;
    let messages = messages(row, &exported, &model, omissions)?;
    omissions.add("rows with values of tokens (`--as atif` has them)", usize::from(!row.token_ids.is_empty()));
    let target = row.answer_check.as_ref().map_or("", |check| check.expected.as_str());
    let id = if row.problem_id.is_empty() { &row.id } else { &row.problem_id };
    let usage = usage(row);
    let usages = OrderedValue::Object(usage.clone().map(|usage| (model.clone(), usage)).into_iter().collect());
    let sample = OrderedValue::object([
        ("id", id.as_str().into()),
        ("epoch", OrderedValue::Int(i64::from(row.sample) + 1)),
        ("input", OrderedValue::List(messages[..prompt_length(row)].to_vec())),
        ("target", target.into()),
        ("output", output(row, (&exported, &messages), &model, usage)),
        ("messages", OrderedValue::List(messages)),
        ("scores", scores(row, omissions)),
        ("metadata", facts(row)?.with("tools", conversation::tools(row)?)),
        ("store", OrderedValue::Object(Vec::new())),
        ("events", OrderedValue::List(Vec::new())),
        ("model_usage", usages),
        ("role_usage", OrderedValue::Object(Vec::new())),
        ("attachments", OrderedValue::Object(Vec::new())),
        ("turn_count", OrderedValue::Int(i64::from(row.turns))),
    ])
    .with("limit", limit(row));
    let digest = Digest::of(sample.to_json()?.as_bytes());
    Ok(sample.with("uuid", Some(OrderedValue::from(&digest.as_str()[..ID_LENGTH]))))
}

/// Returns the name of the model: the beginning of its digest, or Inspect's name for no model.
fn model(row: &Trajectory) -> String {
    let digest = row.model_digest.as_deref().and_then(|digest| digest.get(..12).or(Some(digest)));
    digest.map_or_else(|| "none/none".to_string(), |digest| format!("trainyard/{digest}"))
}

/// Returns the numbers of tokens, or `None` for rows without tokens.
fn usage(row: &Trajectory) -> Option<OrderedValue> {
    let count = |count: usize| OrderedValue::Int(i64::try_from(count).unwrap_or(i64::MAX));
    let sampled = row.loss_mask.iter().filter(|sampled| **sampled).count();
    (!row.token_ids.is_empty()).then(|| {
        OrderedValue::object([
            ("input_tokens", count(row.token_ids.len().saturating_sub(sampled))),
            ("output_tokens", count(sampled)),
            ("total_tokens", count(row.token_ids.len())),
        ])
    })
}

/// Returns the last turn of the agent with its stop reason.
fn output(
    row: &Trajectory,
    (exported, messages): (&[ExportMessage<'_>], &[OrderedValue]),
    model: &str,
    usage: Option<OrderedValue>,
) -> OrderedValue {
    let last = (0..exported.len()).rfind(|i| exported[*i].message.role == "assistant");
    let choice = |i: usize| {
        OrderedValue::object([("message", messages[i].clone()), ("stop_reason", stop_reason(row.stop_reason).into())])
    };
    OrderedValue::object([
        ("model", model.into()),
        ("choices", OrderedValue::List(last.map(choice).into_iter().collect())),
        ("completion", last.map_or("", |i| exported[i].text.as_str()).into()),
    ])
    .with("usage", usage)
}

fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Answer | StopReason::End => "stop",
        StopReason::Length => "max_tokens",
        StopReason::Turns | StopReason::ToolLimit => "tool_calls",
        StopReason::Error | StopReason::Cancelled => "unknown",
    }
}

/// Returns the limit that ended the episode, if its value is in the row.
fn limit(row: &Trajectory) -> Option<OrderedValue> {
    let limit = |kind: &str, value: u32| {
        OrderedValue::object([("type", kind.into()), ("limit", OrderedValue::Float(f64::from(value)))])
    };
    match row.stop_reason {
        StopReason::Turns => Some(limit("turn", row.turns)),
        StopReason::ToolLimit => Some(limit("custom", row.tool_calls).with("reason", Some("tool calls".into()))),
        _ => None,
    }
}
