//! Lists the fields of a trajectory that formats of logs keep as metadata: everything except the messages, the rewards
//! and the values of tokens.

use serde::Serialize;
use trainyard_core::{Error, Result};
use trainyard_tables::{OrderedValue, Trajectory};

/// Returns the fields of a row as an object, without those that have no value. Errors: a bug, if a field is not JSON.
pub fn facts(row: &Trajectory) -> Result<OrderedValue> {
    let text = |value: &Option<String>| value.as_deref().map(OrderedValue::from);
    let count = |value: u32| Some(OrderedValue::Int(i64::from(value)));
    let listed = |values: &[f64]| (!values.is_empty()).then(|| floats(values.iter().copied()));
    let single = |values: &Option<Vec<f32>>| values.as_deref().map(|values| floats(values.iter().map(|v| short(*v))));
    let known = |digest: &str| (!digest.is_empty()).then(|| OrderedValue::from(digest));
    Ok(OrderedValue::object([("id", OrderedValue::from(row.id.as_str()))])
        .with("problem_id", Some(OrderedValue::from(row.problem_id.as_str())))
        .with("group", count(row.group))
        .with("sample", count(row.sample))
        .with("environment", Some(OrderedValue::from(row.environment.as_str())))
        .with("level", count(row.level))
        .with("stop_reason", Some(json(&row.stop_reason)?))
        .with("turns", count(row.turns))
        .with("tool_calls", count(row.tool_calls))
        .with("tool_errors", count(row.tool_errors))
        .with("answer", text(&row.answer))
        .with("turn_rewards", listed(&row.turn_rewards))
        .with("step_labels", single(&row.step_labels))
        .with("step_scores", single(&row.step_scores))
        .with("verdicts", (!row.verdicts.is_empty()).then(|| json(&row.verdicts)).transpose()?)
        .with("sampling", Some(json(&row.sampling)?))
        .with("seed", Some(json(&row.seed)?))
        .with("update", row.update.and_then(count))
        .with("model_digest", text(&row.model_digest))
        .with("tokenizer_digest", known(&row.tokenizer_digest))
        .with("template_digest", known(&row.template_digest))
        .with("parents", (!row.parents.is_empty()).then(|| json(&row.parents)).transpose()?)
        .with("fork_of", text(&row.fork_of))
        .with("fork_at", row.fork_at.and_then(count)))
}

/// Returns numbers as a list.
pub fn floats(values: impl IntoIterator<Item = f64>) -> OrderedValue {
    OrderedValue::List(values.into_iter().map(OrderedValue::Float).collect())
}

/// Returns the number with the fewest digits that is `value` in single precision.
pub fn short(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// Converts a field by its own JSON.
pub fn json(value: &impl Serialize) -> Result<OrderedValue> {
    let value = serde_json::to_value(value).map_err(|e| Error::bug(format!("a field of a row is not JSON: {e}")))?;
    Ok(OrderedValue::of_json(&value))
}
