//! Formats one row of a table: a trajectory as a conversation, another row as a record.

use super::metrics::number;
use super::segments::EpisodeSegments;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use trainyard_views::step_labels;
use trainyard_views::trajectory::{PER_TOKEN, verdict};

/// Maximum number of list items that are shown.
const ITEMS: usize = 12;
/// Columns that the text of a trajectory already shows; other columns are listed below.
const HEAD_COLUMNS: [&str; 18] = [
    "messages",
    "rewards",
    "reward",
    "outcome",
    "verdicts",
    "stop_reason",
    "status",
    "turns",
    "tool_calls",
    "tool_errors",
    "id",
    "problem_id",
    "answer",
    "expected",
    "extracted",
    "verifier",
    "correct",
    "unreadable",
];

pub fn row(row: &Value) -> String {
    let Some(cells) = row.as_object() else { return row.to_string() };
    match (cells.get("messages").and_then(Value::as_array), cells.contains_key("stop_reason")) {
        (Some(messages), true) => trajectory(cells, messages),
        _ => record(cells, &[]),
    }
}

fn trajectory(cells: &Map<String, Value>, messages: &[Value]) -> String {
    // Labels without a known place are listed.
    let placed = (!step_labels::of_row(cells).is_empty()).then_some("step_labels");
    let hidden: Vec<&str> = HEAD_COLUMNS.iter().chain(&PER_TOKEN).copied().chain(placed).collect();
    let (text, answer) = (conversation(cells, messages), answer(cells).unwrap_or_default());
    format!("{}\n\n{}", format!("{text}\n{answer}").trim_end(), record(cells, &hidden)).trim_end().to_string()
}

/// Formats the conversation of a trajectory with its outcome. The columns per token show its segments.
pub fn conversation_text(row: &Value) -> String {
    let messages = row.get("messages").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    row.as_object().map_or_else(|| row.to_string(), |cells| conversation(cells, messages))
}

fn conversation(cells: &Map<String, Value>, messages: &[Value]) -> String {
    let mut text = String::new();
    for name in ["id", "problem_id"] {
        let _ = writeln!(text, "{name}: {}", plain(cells.get(name).unwrap_or(&Value::Null)));
    }
    let (segments, labels) = (EpisodeSegments::read(cells, messages), step_labels::of_row(cells));
    for (at, message) in messages.iter().enumerate() {
        segments.headings(at, message).iter().for_each(|heading| {
            let _ = writeln!(text, "\n{heading}");
        });
        let labels = labels.get(&at).map(|labels| step_labels::text(labels, number));
        write_message(&mut text, message, labels.as_deref());
    }
    text + "\n" + &ending(cells)
}

/// Formats messages, each after a line with its role.
pub fn messages_text(messages: &[Value]) -> String {
    let mut text = String::new();
    for message in messages {
        write_message(&mut text, message, None);
    }
    text
}

/// Formats the end of a trajectory: the reason, the reward with its components, counts, and verdicts of filters.
pub fn ending(cells: &Map<String, Value>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "── end: {}", plain(cells.get("stop_reason").unwrap_or(&Value::Null)));
    let of = |name: &str| cells.get(name).filter(|v| !v.is_null()).map(plain);
    let _ = writeln!(text, "reward {}{}", of("reward").unwrap_or_default(), components(cells.get("rewards")));
    let counts = ["outcome", "status", "turns", "tool_calls", "tool_errors"];
    let counts = counts.iter().filter_map(|n| Some(format!("{} {}", n.replace('_', " "), of(n)?)));
    let messages = cells.get("messages").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let segments = EpisodeSegments::read(cells, messages).count;
    let segments = (segments > 1).then(|| format!("segments {segments}"));
    let counts: Vec<String> = counts.chain(segments).collect();
    let _ = writeln!(text, "{}", counts.join("  "));
    for verdict in cells.get("verdicts").and_then(Value::as_array).into_iter().flatten() {
        let kept = verdict.get("keep").and_then(Value::as_bool).unwrap_or(true);
        let of = |name: &str| verdict.get(name).map(plain).unwrap_or_default();
        let _ = writeln!(text, "{} by {}: {}", if kept { "kept" } else { "dropped" }, of("rule"), of("reason"));
    }
    text.trim_end().to_string()
}

/// Formats the comparison of the answer with the expected one: `verdict right: answer 7; expected: 7; verifier: v`,
/// and the answer as given if the compared one was extracted from it. A row of a table has the comparison in its
/// columns, an episode of a trial in `answer_check`. Returns `None` for a row without a comparison and without an
/// answer.
pub fn answer(cells: &Map<String, Value>) -> Option<String> {
    let check = cells.get("answer_check").and_then(Value::as_object).unwrap_or(cells);
    let of = |cells: &Map<String, Value>, name: &str| cells.get(name).filter(|v| !v.is_null()).map(plain);
    let given = of(cells, "answer");
    let (Some(expected), Some(verifier)) = (of(check, "expected"), of(check, "verifier")) else {
        return given.map(|answer| format!("answer: {answer}"));
    };
    let verdict = verdict(check, given.is_some());
    let extracted = of(check, "extracted");
    let source = given.clone().filter(|given| extracted.as_ref().is_some_and(|extracted| extracted != given));
    let source = source.map(|given| format!("; extracted from: {}", given.replace('\n', "⏎"))).unwrap_or_default();
    let answer = extracted.or(given).map_or("no answer".to_string(), |answer| format!("answer {answer}"));
    Some(format!("verdict {verdict}: {answer}; expected: {expected}; verifier: {verifier}{source}"))
}

/// Writes a message after a line with its role and what is known about its turn.
fn write_message(text: &mut String, message: &Value, fact: Option<&str>) {
    let role = message.get("role").map(plain).unwrap_or_default();
    let fact = fact.map(|fact| format!(", {fact}")).unwrap_or_default();
    let _ = writeln!(text, "\n── {role}{fact}");
    let body = message.get("content").map(plain).unwrap_or_default();
    // Tool output is indented to distinguish it from messages.
    let margin = if role == "tool" { "  | " } else { "" };
    for line in body.lines() {
        let _ = writeln!(text, "{margin}{line}");
    }
    for call in calls(message) {
        let _ = writeln!(text, "  → {call}");
    }
}

/// Formats tool calls as `name(arguments)`. Rows store the calls as JSON text.
fn calls(message: &Value) -> Vec<String> {
    let stored = message.get("tool_calls").cloned().unwrap_or(Value::Null);
    let list = match &stored {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| stored.clone()),
        _ => stored,
    };
    let one = |call: &Value| {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").map(plain)?;
        Some(format!("{name}({})", function.get("arguments").map(plain).unwrap_or_default()))
    };
    match list {
        Value::Array(items) => items.iter().map(|call| one(call).unwrap_or_else(|| plain(call))).collect(),
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        other => vec![one(&other).unwrap_or_else(|| plain(&other))],
    }
}

/// Formats reward components as ` = answer 1, format 0.1`, from a map or from a list of names and values.
fn components(rewards: Option<&Value>) -> String {
    let named: Vec<String> = match rewards {
        Some(Value::Object(map)) => map.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect(),
        Some(Value::Array(items)) => {
            items.iter().filter_map(|i| Some(format!("{} {}", plain(i.get("name")?), plain(i.get("value")?)))).collect()
        }
        _ => Vec::new(),
    };
    if named.is_empty() { String::new() } else { format!(" = {}", named.join(", ")) }
}

/// Formats `name: value` for each column with a value that is not in `hidden`. Long texts are below their names.
fn record(cells: &Map<String, Value>, hidden: &[&str]) -> String {
    let mut text = String::new();
    for (name, value) in cells.iter().filter(|(name, value)| !value.is_null() && !hidden.contains(&name.as_str())) {
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let _ = writeln!(text, "{name}:");
                items.iter().for_each(|item| {
                    let _ = writeln!(text, "  - {}", inline(item));
                });
            }
            _ => {
                let shown = plain(value);
                if shown.contains('\n') {
                    let _ = writeln!(text, "{name}:");
                    shown.lines().for_each(|line| {
                        let _ = writeln!(text, "  {line}");
                    });
                } else {
                    let _ = writeln!(text, "{name}: {shown}");
                }
            }
        }
    }
    text.trim_end().to_string()
}

/// Formats a map on one line: `role: user, content: …`.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let parts =
                map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| format!("{k}: {}", plain(v).replace('\n', " ")));
            parts.collect::<Vec<_>>().join(", ")
        }
        other => plain(other),
    }
}

/// Formats a value: text without quotes, and the beginning and the length of a long list.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.len() > ITEMS => {
            let first: Vec<String> = items.iter().take(ITEMS).map(plain).collect();
            format!("[{}, … {} in all]", first.join(", "), items.len())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn trajectory_is_formatted_as_a_conversation() {
        let text = row(&json!({
            "id": "r1", "problem_id": "p1", "token_ids": [1, 2], "level": 2, "turns": 1, "status": "ok",
            "messages": [
                {"role": "user", "content": "2+3?", "tool_calls": null},
                {
                    "role": "assistant", "content": "I compute.",
                    "tool_calls": "[{\"name\": \"python\", \"arguments\": {\"code\": \"2+3\"}}]",
                },
                {"role": "tool", "content": "5", "tool_calls": null},
            ],
            "reward": 1.1, "rewards": {"answer": 1.0, "format": 0.1}, "stop_reason": "answer",
            "verdicts": [{"rule": "void_turn", "keep": false, "reason": "no call in turn 2"}],
        }));
        let expected = "id: r1\nproblem_id: p1\n\n── user\n2+3?\n\n── assistant\nI compute.\n\
                        \x20 → python({\"code\":\"2+3\"})\n\n── tool\n  | 5\n\n\
                        ── end: answer\nreward 1.1 = answer 1.0, format 0.1\nstatus ok  turns 1\n\
                        dropped by void_turn: no call in turn 2\n\nlevel: 2";
        assert_eq!(text, expected);
    }

    #[test]
    fn step_labels_are_at_their_turns() {
        let mut cells = json!({
            "id": "r1", "problem_id": "p1", "stop_reason": "answer", "turns": 2, "step_labels": [null, 0.25],
            "messages": [
                {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                {"role": "tool", "content": "5"}, {"role": "assistant", "content": "b"},
            ],
        });
        let text = row(&cells);
        assert!(text.contains("── assistant, step label none\na\n\n── tool\n"), "{text}");
        assert!(text.contains("── assistant, step label 0.250\nb\n") && !text.contains("step_labels"), "{text}");
        cells["step_labels"] = json!([0.25]);
        let text = row(&cells);
        assert!(text.contains("step_labels: [0.25]") && !text.contains("step label "), "no place is known: {text}");
    }

    #[test]
    fn answers_are_shown_with_what_they_were_compared_with() {
        let of = |value: Value| answer(value.as_object().unwrap());
        let row = json!({"answer": "0", "expected": "0", "extracted": "0", "verifier": "numeric", "correct": true});
        let right = "verdict right: answer 0; expected: 0; verifier: numeric";
        assert_eq!(of(row.clone()).as_deref(), Some(right));
        assert_eq!(of(json!({"answer": "0", "answer_check": row.clone()})).as_deref(), Some(right));
        let mut longer = row.clone();
        longer["answer"] = json!("0 degrees");
        assert_eq!(of(longer), Some(format!("{right}; extracted from: 0 degrees")));
        let mut unreadable = row.clone();
        for (name, value) in [
            ("answer", json!("3 or 5")),
            ("extracted", Value::Null),
            ("correct", json!(false)),
            ("unreadable", json!("different numbers: 3, 5")),
        ] {
            unreadable[name] = value;
        }
        assert_eq!(
            of(unreadable).unwrap(),
            "verdict unreadable (different numbers: 3, 5): answer 3 or 5; expected: 0; verifier: numeric"
        );
        let silent = json!({"answer": null, "expected": "0", "verifier": "numeric", "unreadable": "no answer"});
        assert_eq!(of(silent).as_deref(), Some("verdict wrong: no answer; expected: 0; verifier: numeric"));
        assert_eq!(of(json!({"answer": "0", "verifier": null})).as_deref(), Some("answer: 0"));
        assert_eq!(of(json!({"answer": null})), None);
        let shown = super::row(&json!({
            "id": "r1", "problem_id": "p1", "messages": [], "stop_reason": "answer", "status": "ok", "level": 2,
            "answer": "0", "expected": "0", "extracted": "0", "verifier": "numeric", "correct": true,
        }));
        assert!(shown.ends_with(&format!("status ok\n{right}\n\nlevel: 2")), "{shown}");
    }

    #[test]
    fn other_rows_are_formatted_as_records() {
        let text = row(&json!({
            "id": "p1", "prompt": [{"role": "user", "content": "a\nb"}],
            "numbers": (0..20).collect::<Vec<_>>(), "x": null,
        }));
        assert_eq!(
            text,
            "id: p1\nnumbers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 20 in all]\n\
             prompt:\n  - content: a b, role: user"
        );
    }

    #[test]
    fn rewards_of_a_list_are_formatted() {
        assert_eq!(components(Some(&json!([{"name": "answer", "value": 1.0}]))), " = answer 1.0");
    }
}
