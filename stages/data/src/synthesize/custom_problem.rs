//! Parses the response of a program or a service about one problem, with the turns of the agent.

use crate::hash::xxh64;
use crate::text::normal;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use trainyard_core::{Error, Result};
use trainyard_envs::ToolCall;
use trainyard_envs::environments::ScriptedTurn;
use trainyard_tables::{Message, Problem};

/// Roles that a prompt may contain.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// A problem with the turns that solve it.
#[derive(Debug, Clone, PartialEq)]
pub struct SolvedProblem {
    /// The problem without its split.
    pub problem: Problem,
    /// Turns of the agent; empty where the program provides no turns.
    pub turns: Vec<ScriptedTurn>,
}

/// A problem in the program's response.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomProblem {
    /// A text for the user's message.
    #[serde(default)]
    question: Option<String>,
    /// All messages instead.
    #[serde(default)]
    prompt: Vec<CustomMessage>,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    reference: Option<String>,
    #[serde(default)]
    verifier: Map<String, Value>,
    #[serde(default)]
    canonical: Option<String>,
    /// Sources of the problem, for the column `parents`.
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    turns: Vec<CustomTurn>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomMessage {
    role: String,
    content: String,
}

/// A turn of the agent.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CustomTurn {
    /// Text, unchanged.
    Text(String),
    /// A call, in the environment's format.
    Call(CustomCall),
    /// Several calls.
    Calls(Vec<CustomCall>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomCall {
    call: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl From<CustomCall> for ToolCall {
    fn from(call: CustomCall) -> Self {
        Self { name: call.call, arguments: Value::Object(call.arguments) }
    }
}

impl From<CustomTurn> for ScriptedTurn {
    fn from(turn: CustomTurn) -> Self {
        match turn {
            CustomTurn::Text(text) => Self::Text(text),
            CustomTurn::Call(call) => Self::Call(call.into()),
            CustomTurn::Calls(calls) => Self::Calls(calls.into_iter().map(ToolCall::from).collect()),
        }
    }
}

/// Reads one row of a response, `{"problem": …}`. Returns `None` if the value is null, because the program has no such
/// problem.
///
/// Errors: data, describing the fault.
pub fn read(row: &Value, level: u32, source: &str, environment: &str) -> Result<Option<SolvedProblem>> {
    let help = "return {\"problem\": {\"question\": …, \"answer\": …, \"turns\": […]}}, or {\"problem\": null}";
    let wrong = |message: String| Error::data(message).help(help);
    let custom = match row.get("problem") {
        None => return Err(wrong(format!("the program returned `{row}` for a generator"))),
        Some(Value::Null) => return Ok(None),
        Some(custom) => custom,
    };
    let custom = CustomProblem::deserialize(custom)
        .map_err(|e| wrong(format!("the program returned an invalid problem: {e}")))?;
    let mut messages: Vec<Message> = custom.prompt.iter().map(|m| Message::new(&m.role, m.content.as_str())).collect();
    if let Some(message) = custom.prompt.iter().find(|m| !ROLES.contains(&m.role.as_str())) {
        return Err(wrong(format!("the program returned a problem with a message of role `{}`", message.role)));
    }
    match (custom.question, messages.is_empty()) {
        (Some(question), true) => messages.push(Message::new("user", question)),
        (None, false) => {}
        _ => return Err(wrong("a problem needs either a `question` or messages as `prompt`".to_string())),
    }
    let answer = match custom.answer {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let text: Vec<&str> = messages.iter().map(|m| m.content.as_str()).collect();
    let canonical = custom.canonical.unwrap_or_else(|| normal(&text.join(" ")));
    let id = format!("{source}-{:016x}", xxh64(canonical.as_bytes(), 0));
    let problem = Problem {
        id,
        messages,
        answer,
        verifier: json!(custom.verifier).to_string(),
        environment: environment.to_string(),
        level,
        source: source.to_string(),
        canonical,
        reference: custom.reference,
        parents: custom.parents,
        ..Problem::default()
    };
    Ok(Some(SolvedProblem { problem, turns: custom.turns.into_iter().map(ScriptedTurn::from).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(problem: Value) -> Result<Option<SolvedProblem>> {
        read(&json!({ "problem": problem }), 2, "process", "math-problems")
    }

    #[test]
    fn a_problem_is_read_with_its_turns() {
        let call = json!({"call": "calculator", "arguments": {"expression": "2+3"}});
        let turns = json!([call, [call, call], "#### 5"]);
        let response = json!({"question": "What is 2 + 3?", "answer": 5, "verifier": {"kind": "numeric"},
            "turns": turns, "parents": ["sums.csv:7", "seed-1"]});
        let solved = one(response).unwrap().unwrap();
        let problem = &solved.problem;
        assert_eq!(problem.parents, ["sums.csv:7", "seed-1"]);
        assert_eq!((problem.question(), problem.answer.as_str(), problem.level), ("What is 2 + 3?", "5", 2));
        assert_eq!((problem.canonical.as_str(), problem.verifier.as_str()), ("what is 2 3", r#"{"kind":"numeric"}"#));
        let call = ToolCall { name: "calculator".into(), arguments: json!({"expression": "2+3"}) };
        let calls = ScriptedTurn::Calls(vec![call.clone(), call.clone()]);
        assert_eq!(solved.turns, [ScriptedTurn::Call(call), calls, ScriptedTurn::Text("#### 5".into())]);
        let same = one(json!({"question": "what is 2 + 3", "answer": "5"})).unwrap().unwrap();
        assert!(same.problem.parents.is_empty());
        assert_eq!(same.problem.id, solved.problem.id, "two problems are the same if their canonical forms are");
        assert!(one(Value::Null).unwrap().is_none());
    }

    #[test]
    fn invalid_problems_are_rejected() {
        for (response, words) in [
            (json!("2+3"), "invalid problem"),
            (json!({}), "either a `question`"),
            (json!({"question": "q", "prompt": [{"role": "user", "content": "q"}]}), "either a `question`"),
            (json!({"prompt": [{"role": "judge", "content": "q"}]}), "role `judge`"),
            (json!({"question": "q", "anwser": 5}), "anwser"),
            (json!({"question": "q", "parents": "sums.csv:7"}), "invalid problem"),
            (json!({"question": "q", "turns": [3]}), "invalid problem"),
            (json!({"question": "q", "turns": [{"call": "f", "args": {}}]}), "invalid problem"),
        ] {
            let error = one(response.clone()).unwrap_err();
            assert!(error.message.contains(words) && error.help.is_some(), "{response}: {error}");
        }
        assert!(read(&json!({"value": 1}), 1, "process", "e").unwrap_err().message.contains("for a generator"));
    }
}
