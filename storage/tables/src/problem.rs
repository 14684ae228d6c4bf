//! The row of a `problems` artifact.

use serde::{Deserialize, Serialize};

/// One chat message, in problems and trajectories.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Its text.
    pub content: String,
    /// Tool calls of an assistant message as JSON text: `[{"name": …, "arguments": {…}}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<String>,
    /// Who speaks, where several share a role; of a tool's result, the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reasoning before an assistant's content, as servers and templates of reasoning models keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Of a tool's result: the id of the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of a role and a text alone.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.to_string(), content: content.into(), ..Self::default() }
    }
}

/// A problem to solve.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Unique within its source, and the same in every run.
    pub id: String,
    /// The prompt, without what the environment adds to it, such as tool descriptions.
    pub messages: Vec<Message>,
    /// The expected final answer.
    pub answer: String,
    /// Data for the verifier as JSON text (`{}` if none).
    pub verifier: String,
    /// Kind of the environment that poses it, such as `word-problems`.
    pub environment: String,
    /// Difficulty, from 1; 0 = unknown.
    pub level: u32,
    /// The generator or data set that it comes from.
    pub source: String,
    /// `demonstrations`, `rl`, `prm`, `validation`, `test`, …
    pub split: String,
    /// Template, numbers and question in one form: two problems are the same exactly if this is.
    pub canonical: String,
    /// A worked solution, if the source has one (in GSM8K with `<<48/2=24>>` annotations).
    pub reference: Option<String>,
}

impl Problem {
    /// The text of the last user message.
    pub fn question(&self) -> &str {
        self.messages.iter().rev().find(|m| m.role == "user").map_or("", |m| &m.content)
    }
}
