//! What a request asks for, whichever API it came by.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainyard_tables::Message;

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// Anthropic's `/v1/messages`.
    Messages,
}

/// What is to be continued.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// A conversation, for the model's template. Calls of assistants are in OpenAI's form
    /// (`{"id", "type", "function": {"name", "arguments": "…"}}`), results of tools carry the id of their call.
    Messages(Vec<Message>),
    /// A text as it is, special tokens understood.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name in calls.
    pub name: String,
    /// What it does; empty if the request does not say.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// Whether the model may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// Not at all: the tools are not shown to it.
    None,
}

/// A request. What is `None` or empty was left to whoever answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The API that it came by, and the answer goes by.
    pub form: Form,
    /// Name of the model; empty if none was named.
    pub model: String,
    /// What is to be continued.
    pub prompt: Prompt,
    /// The tools of the conversation.
    pub tools: Vec<Tool>,
    /// Whether they may be called.
    pub tool_choice: ToolChoice,
    /// Whether one turn may hold several calls; if not, it ends with the first.
    pub parallel_calls: bool,
    /// From 0 (greedy).
    pub temperature: Option<f64>,
    /// Above 0, at most 1 (no truncation).
    pub top_p: Option<f64>,
    /// 0 = no truncation.
    pub top_k: Option<u32>,
    /// Equal seeds give equal tokens.
    pub seed: Option<u64>,
    /// Most tokens to sample, at least 1.
    pub max_tokens: Option<usize>,
    /// Texts that end the turn, none of them empty.
    pub stop: Vec<String>,
    /// Tokens that end the turn, beside the model's own.
    pub stop_tokens: Vec<u32>,
    /// The model's own end tokens end nothing.
    pub ignore_end: bool,
    /// The text of a stop text or stop token stays in the answer.
    pub keep_stop: bool,
    /// Answers to the same prompt, at least 1.
    pub n: usize,
    /// As events while it is sampled.
    pub stream: bool,
    /// A last event with the usage.
    pub stream_usage: bool,
    /// Log-probabilities of the sampled tokens, with so many of the most probable ones at each place.
    pub logprobs: Option<usize>,
    /// Log-probabilities of the prompt's tokens.
    pub prompt_logprobs: bool,
    /// Token ids of the prompt and of the answer.
    pub token_ids: bool,
    /// Tokens are named `token_id:17` where they would be named by their text.
    pub tokens_as_ids: bool,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: BTreeMap<String, Value>,
    /// Of the form [`Form::Responses`]: whether a later request may continue the answer by its id.
    pub store: bool,
    /// Of the same form: whether the first message holds the instructions, which a later request does not inherit.
    pub instructions: bool,
    /// Fields that the answer repeats as they came.
    pub echo: Map<String, Value>,
}

impl Asked {
    /// A request with nothing but a model and a prompt.
    pub fn new(form: Form, model: &str, prompt: Prompt) -> Self {
        Self {
            form,
            model: model.to_string(),
            prompt,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_calls: true,
            temperature: None,
            top_p: None,
            top_k: None,
            seed: None,
            max_tokens: None,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            ignore_end: false,
            keep_stop: false,
            n: 1,
            stream: false,
            stream_usage: false,
            logprobs: None,
            prompt_logprobs: false,
            token_ids: false,
            tokens_as_ids: false,
            variables: BTreeMap::new(),
            store: false,
            instructions: false,
            echo: Map::new(),
        }
    }
    /// The conversation; empty if the prompt is none.
    pub fn messages(&self) -> &[Message] {
        match &self.prompt {
            Prompt::Messages(messages) => messages,
            Prompt::Text(_) | Prompt::Tokens(_) => &[],
        }
    }
    /// The tools that the model is to see.
    pub fn offered(&self) -> &[Tool] {
        if self.tool_choice == ToolChoice::None { &[] } else { &self.tools }
    }
}
