//! Defines the responses of a handler: complete turns, and the deltas in which they are streamed.

use serde_json::{Value, json};
use trainyard_tables::Message;

/// Reason of a turn's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ApiFinishReason {
    /// An end token of the model.
    #[default]
    End,
    /// A stop text of the request.
    Text(String),
    /// A stop token of the request.
    Token(u32),
    /// Tool calls that require results.
    Calls,
    /// The limit of tokens.
    Length,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiToolCall {
    /// Id, unique in its conversation.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// JSON object as text, unchanged from the model's output where the call format preserves it.
    pub arguments: String,
}

/// One of the most probable tokens at a position.
#[derive(Debug, Clone, PartialEq)]
pub struct TopLogprob {
    pub id: u32,
    pub text: String,
    /// Log-probability in nats.
    pub logprob: f32,
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampledToken {
    pub id: u32,
    /// Text of the token alone; U+FFFD where the token ends within a character.
    pub text: String,
    /// Log-probability in nats, under the distribution from which the token was drawn, or `None` if the sampler does
    /// not report it.
    pub logprob: Option<f32>,
    /// The most probable tokens at this position, as many as requested.
    pub top: Vec<TopLogprob>,
}

/// An addition to a turn. The sum of all deltas is the turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChoiceDelta {
    /// Index of the choice, from 0.
    pub choice: usize,
    /// Reasoning before the text.
    pub thinking: String,
    /// Text of the response, without calls.
    pub text: String,
    /// Complete calls.
    pub calls: Vec<ApiToolCall>,
    /// Sampled tokens, including those of thoughts, calls and the end.
    pub tokens: Vec<SampledToken>,
}

impl ChoiceDelta {
    /// Returns whether the delta is empty.
    pub fn is_empty(&self) -> bool {
        self.thinking.is_empty() && self.text.is_empty() && self.calls.is_empty() && self.tokens.is_empty()
    }
}

/// A complete turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponseChoice {
    /// Reasoning before the text; may be empty.
    pub thinking: String,
    /// Text of the response, without calls.
    pub text: String,
    /// Calls in order.
    pub calls: Vec<ApiToolCall>,
    /// Sampled tokens, including those of thoughts, calls and the end.
    pub tokens: Vec<SampledToken>,
    /// Reason of the end.
    pub finish: ApiFinishReason,
}

impl ResponseChoice {
    /// Appends a delta of this turn.
    pub fn add(&mut self, delta: &ChoiceDelta) {
        self.thinking.push_str(&delta.thinking);
        self.text.push_str(&delta.text);
        self.calls.extend(delta.calls.iter().cloned());
        self.tokens.extend(delta.tokens.iter().cloned());
    }
    /// Returns the complete turn as one delta.
    pub fn to_delta(&self, choice: usize) -> ChoiceDelta {
        let Self { thinking, text, calls, tokens, .. } = self.clone();
        ChoiceDelta { choice, thinking, text, calls, tokens }
    }
    /// Returns the turn as the assistant message of a later request, with calls in OpenAI's form.
    pub fn message(&self) -> Message {
        Message {
            tool_calls: calls_text(&self.calls),
            reasoning_content: (!self.thinking.is_empty()).then(|| self.thinking.clone()),
            ..Message::new("assistant", self.text.clone())
        }
    }
}

/// Returns calls in OpenAI's form as JSON text, or `None` without calls.
pub fn calls_text(calls: &[ApiToolCall]) -> Option<String> {
    let list: Vec<Value> = calls.iter().map(call_json).collect();
    (!list.is_empty()).then(|| Value::Array(list).to_string())
}

/// Returns a call in OpenAI's form.
pub fn call_json(call: &ApiToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Sampled tokens, in all choices together.
    pub sampled: usize,
    /// Reasoning tokens among the sampled ones.
    pub thinking: usize,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelResponse {
    /// Turns, as many as requested.
    pub choices: Vec<ResponseChoice>,
    /// Token ids of the prompt; empty if unknown.
    pub prompt_ids: Vec<u32>,
    /// Log-probability of each prompt token under the model's own distribution, if requested; the first is 0.
    pub prompt_logprobs: Option<Vec<f32>>,
    pub usage: Usage,
}
