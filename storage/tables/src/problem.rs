//! Defines the row of a `problems` artifact, and the chat messages that problems and trajectories contain.

use serde::{Deserialize, Serialize};

/// One chat message, in problems and trajectories.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text of the message.
    pub content: String,
    /// Tool calls of an assistant message as JSON text: `[{"name": …, "arguments": {…}}]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<String>,
    /// Name of the speaker, where several share a role; for a tool's result, the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reasoning before an assistant's content, as servers and templates of reasoning models keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// For a tool's result, the id of its tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// Creates a message with only a role and a text.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.to_string(), content: content.into(), ..Self::default() }
    }
}

/// A problem to solve.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Id, unique within its source and the same in every run.
    pub id: String,
    /// Prompt, without the environment's additions such as tool descriptions.
    pub messages: Vec<Message>,
    /// Expected final answer.
    pub answer: String,
    /// Data for the verifier as JSON text (`{}` if none).
    pub verifier: String,
    /// Kind of the problem's environment, such as `word-problems`.
    pub environment: String,
    /// Difficulty, from 1; 0 if unknown.
    pub level: u32,
    /// Generator or data set of origin.
    pub source: String,
    /// `demonstrations`, `rl`, `prm`, `validation`, `test`, …
    pub split: String,
    /// Template, numbers and question in one form: two problems are the same exactly if this is equal.
    pub canonical: String,
    /// Worked solution, if the source has one (in GSM8K with `<<48/2=24>>` annotations).
    pub reference: Option<String>,
    /// Further columns of the imported row, as JSON text of an object by the names of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    /// Direct sources: ids of the rows that this one was made from, or the places of files that it was read from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
}

impl Problem {
    /// Returns the text of the last user message.
    pub fn question(&self) -> &str {
        self.messages.iter().rev().find(|m| m.role == "user").map_or("", |m| &m.content)
    }
}
