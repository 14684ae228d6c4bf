//! What a desk answers: whole turns, and the pieces that they come in.

use serde_json::{Value, json};
use trainyard_tables::Message;

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Finish {
    /// By an end token of the model's own.
    #[default]
    End,
    /// By a text of the request.
    Text(String),
    /// By a token of the request.
    Token(u32),
    /// With calls that are to be answered.
    Calls,
    /// At the limit of tokens.
    Length,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Unique in its conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object as text, as the model wrote it as far as its format keeps that.
    pub arguments: String,
}

/// One of the most probable tokens at a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// In nats.
    pub logprob: f32,
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its text by itself; U+FFFD where it ends within a character.
    pub text: String,
    /// In nats, under the distribution that it was drawn from; none where the sampler cannot tell.
    pub logprob: Option<f32>,
    /// The most probable tokens at its place, as many as were asked for.
    pub top: Vec<Top>,
}

/// What has been added to a turn. The sum of all pieces is the turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Piece {
    /// Which of the answers it belongs to, from 0.
    pub choice: usize,
    /// Reasoning before the answer.
    pub thinking: String,
    /// The answer's text, without calls.
    pub text: String,
    /// Whole calls.
    pub calls: Vec<Call>,
    /// The sampled tokens, those of thoughts, calls and the end included.
    pub tokens: Vec<Token>,
}

impl Piece {
    /// Whether it adds nothing.
    pub fn is_empty(&self) -> bool {
        self.thinking.is_empty() && self.text.is_empty() && self.calls.is_empty() && self.tokens.is_empty()
    }
}

/// A whole turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    /// Reasoning before the answer; empty if there was none.
    pub thinking: String,
    /// The answer's text, without calls.
    pub text: String,
    /// The calls in order.
    pub calls: Vec<Call>,
    /// The sampled tokens, those of thoughts, calls and the end included.
    pub tokens: Vec<Token>,
    /// Why it ended.
    pub finish: Finish,
}

impl Choice {
    /// Adds a piece of this turn.
    pub fn add(&mut self, piece: &Piece) {
        self.thinking.push_str(&piece.thinking);
        self.text.push_str(&piece.text);
        self.calls.extend(piece.calls.iter().cloned());
        self.tokens.extend(piece.tokens.iter().cloned());
    }
    /// The whole turn as a piece.
    pub fn whole(&self, choice: usize) -> Piece {
        let Self { thinking, text, calls, tokens, .. } = self.clone();
        Piece { choice, thinking, text, calls, tokens }
    }
    /// The turn as the assistant's message that a later request would send back, calls in OpenAI's form.
    pub fn message(&self) -> Message {
        Message {
            tool_calls: calls_text(&self.calls),
            reasoning_content: (!self.thinking.is_empty()).then(|| self.thinking.clone()),
            ..Message::new("assistant", self.text.clone())
        }
    }
}

/// Calls in OpenAI's form as JSON text; none if there are none.
pub fn calls_text(calls: &[Call]) -> Option<String> {
    let list: Vec<Value> = calls.iter().map(call_json).collect();
    (!list.is_empty()).then(|| Value::Array(list).to_string())
}

/// A call in OpenAI's form.
pub fn call_json(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// Tokens that were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: usize,
    /// Sampled, in all answers together.
    pub sampled: usize,
    /// Of these, tokens of reasoning.
    pub thinking: usize,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answered {
    /// As many turns as were asked for.
    pub choices: Vec<Choice>,
    /// Token ids of the prompt; empty if they are not known.
    pub prompt_ids: Vec<u32>,
    /// Log-probability of each of them under the model's own distribution, if they were asked for; the first is 0.
    pub prompt_logprobs: Option<Vec<f32>>,
    /// What was counted.
    pub usage: Usage,
}
