//! Serializes episodes and problems as JSON for user programs.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use trainyard_tables::{Message, Problem, StopReason, Trajectory};

/// Serializes JSON that a table stores as text; null if the text is not JSON.
fn embedded<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => raw.serialize(to),
        Err(_) => to.serialize_none(),
    }
}

#[derive(Serialize)]
struct MessageItem<'a> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "calls")]
    tool_calls: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

fn calls<S: Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    embedded(text.unwrap_or_default(), to)
}

fn messages(list: &[Message]) -> Vec<MessageItem<'_>> {
    list.iter().map(MessageItem::new).collect()
}

impl<'a> MessageItem<'a> {
    fn new(m: &'a Message) -> Self {
        let (tool_calls, name) = (m.tool_calls.as_deref(), m.name.as_deref());
        Self { role: &m.role, content: &m.content, tool_calls, name }
    }
}

#[derive(Serialize)]
pub struct ProblemItem<'a> {
    id: &'a str,
    prompt: Vec<MessageItem<'a>>,
    answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    level: u32,
    #[serde(serialize_with = "json_text")]
    verifier: &'a str,
}

fn json_text<S: Serializer>(text: &&str, to: S) -> Result<S::Ok, S::Error> {
    embedded(text, to)
}

impl<'a> ProblemItem<'a> {
    /// Returns the parts of a problem that programs receive.
    pub fn new(p: &'a Problem) -> Self {
        Self {
            id: &p.id,
            prompt: messages(&p.messages),
            answer: &p.answer,
            reference: p.reference.as_deref(),
            level: p.level,
            verifier: &p.verifier,
        }
    }
}

/// An episode with its problem.
#[derive(Serialize)]
pub struct EpisodeItem<'a> {
    messages: Vec<MessageItem<'a>>,
    answer: Option<&'a str>,
    correct: bool,
    tool_calls: u32,
    tool_errors: u32,
    turns: u32,
    stop_reason: StopReason,
    rewards: &'a BTreeMap<String, f64>,
    problem: ProblemItem<'a>,
}

impl<'a> EpisodeItem<'a> {
    /// Returns the parts of an episode that programs receive. `rewards` are the values of the earlier rewards, by name.
    pub fn new(r: &'a Trajectory, p: &'a Problem, correct: bool, rewards: &'a BTreeMap<String, f64>) -> Self {
        Self {
            messages: messages(&r.messages),
            answer: r.answer.as_deref(),
            correct,
            tool_calls: r.tool_calls,
            tool_errors: r.tool_errors,
            turns: r.turns,
            stop_reason: r.stop_reason,
            rewards,
            problem: ProblemItem::new(p),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_in_columns_is_json_for_programs() {
        let calls = r#"[{"name":"f","arguments":{"x":1}}]"#;
        let message = Message { tool_calls: Some(calls.to_string()), ..Message::new("assistant", "hm") };
        let r = Trajectory { messages: vec![message], answer: Some("4".into()), turns: 1, ..Trajectory::default() };
        let p = Problem { id: "p".into(), verifier: "{".into(), ..Problem::default() };
        let rewards = BTreeMap::from([("answer".to_string(), 1.0)]);
        let item = serde_json::to_value(EpisodeItem::new(&r, &p, true, &rewards)).unwrap();
        assert_eq!(item["messages"][0]["tool_calls"][0]["arguments"]["x"], 1);
        assert_eq!((&item["correct"], &item["rewards"]), (&json!(true), &json!({"answer": 1.0})));
        assert!(item["problem"]["verifier"].is_null(), "broken JSON is null");
        assert!(item["messages"][0].get("name").is_none());
    }
}
