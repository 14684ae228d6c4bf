//! Defines the content of a request, independent of its API.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainyard_tables::Message;

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKind {
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// Anthropic's `/v1/messages`.
    Messages,
}

/// Input to be continued.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelPrompt {
    /// A conversation, for the model's template. Calls of assistants are in OpenAI's form (`{"id", "type", "function":
    /// {"name", "arguments": "…"}}`), results of tools carry the id of their call.
    Messages(Vec<Message>),
    /// Literal text, with special tokens parsed.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiTool {
    /// Name in calls.
    pub name: String,
    /// Description; may be empty.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// Whether the model may call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ApiToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls: the tools are hidden from the model.
    None,
    /// At least one call of any tool.
    Required,
    /// One call of this tool.
    Named(String),
}

impl ApiToolChoice {
    /// Returns whether the turn must be a call.
    pub fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Named(_))
    }
}

/// Form of the text of a response.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutputForm {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// A JSON value of this JSON Schema.
    Schema(Value),
}

/// A request. The handler chooses values for the fields that are `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// API of the request and the response.
    pub api: ApiKind,
    /// Name of the model; may be empty.
    pub model: String,
    /// Input to be continued.
    pub prompt: ModelPrompt,
    /// Tools of the conversation.
    pub tools: Vec<ApiTool>,
    /// Whether the tools may be called.
    pub tool_choice: ApiToolChoice,
    /// Form of the response's text. Calls are not bound by it.
    pub output: OutputForm,
    /// Whether one turn may contain several calls; otherwise the turn ends with its first call.
    pub parallel_calls: bool,
    /// Temperature from 0 (greedy).
    pub temperature: Option<f64>,
    /// Above 0, at most 1 (no truncation).
    pub top_p: Option<f64>,
    /// 0 = no truncation.
    pub top_k: Option<u32>,
    /// Equal seeds give equal tokens.
    pub seed: Option<u64>,
    /// Maximum tokens to sample, at least 1.
    pub max_tokens: Option<usize>,
    /// Stop texts, all non-empty.
    pub stop: Vec<String>,
    /// Tokens that end the turn, in addition to the model's end tokens.
    pub stop_tokens: Vec<u32>,
    /// Whether the model's end tokens are ignored.
    pub ignore_end: bool,
    /// Whether the text of a stop text or stop token stays in the response.
    pub keep_stop: bool,
    /// Number of choices for the prompt, at least 1.
    pub n: usize,
    /// Whether the response is streamed as events.
    pub stream: bool,
    /// Whether a last event of a stream reports the usage.
    pub stream_usage: bool,
    /// Log-probabilities of the sampled tokens, with this many of the most probable ones at each position.
    pub logprobs: Option<usize>,
    /// Whether log-probabilities of the prompt's tokens are returned.
    pub prompt_logprobs: bool,
    /// Whether token ids of the prompt and of the response are returned.
    pub token_ids: bool,
    /// Whether tokens are written as `token_id:17` instead of their text.
    pub tokens_as_ids: bool,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: BTreeMap<String, Value>,
    /// For [`ApiKind::Responses`]: whether a later request may continue the response by its id.
    pub store: bool,
    /// For [`ApiKind::Responses`]: whether the first message holds the instructions. A continuing request does not
    /// inherit them.
    pub instructions: bool,
    /// Fields that the response repeats unchanged.
    pub echo: Map<String, Value>,
}

impl ModelRequest {
    /// Creates a request with only a model and a prompt.
    pub fn new(api: ApiKind, model: &str, prompt: ModelPrompt) -> Self {
        Self {
            api,
            model: model.to_string(),
            prompt,
            tools: Vec::new(),
            tool_choice: ApiToolChoice::Auto,
            output: OutputForm::Text,
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
    /// Returns the conversation, or an empty slice for a prompt of text or tokens.
    pub fn messages(&self) -> &[Message] {
        match &self.prompt {
            ModelPrompt::Messages(messages) => messages,
            ModelPrompt::Text(_) | ModelPrompt::Tokens(_) => &[],
        }
    }
    /// Returns the tools that are visible to the model.
    pub fn visible_tools(&self) -> &[ApiTool] {
        if self.tool_choice == ApiToolChoice::None { &[] } else { &self.tools }
    }
}
