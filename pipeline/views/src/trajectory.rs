//! Reads columns of trajectories that several views show.

use serde_json::{Map, Value};

/// Columns with a value per token, which are not readable for humans.
pub const PER_TOKEN: [&str; 7] =
    ["advantages", "entropies", "logprobs", "loss_mask", "token_ids", "turn", "weights_version"];

/// Returns `right`, `wrong`, or `unreadable` with the reason, from the columns of a comparison.
pub fn verdict(check: &Map<String, Value>, has_answer: bool) -> String {
    let reason = check.get("unreadable").filter(|reason| has_answer && !reason.is_null());
    match (check.get("correct") == Some(&Value::Bool(true)), reason) {
        (true, _) => "right".to_string(),
        (false, Some(Value::String(reason))) => format!("unreadable ({reason})"),
        (false, Some(reason)) => format!("unreadable ({reason})"),
        (false, None) => "wrong".to_string(),
    }
}
