//! Defines the types that all dialects share: the request for a turn, its result, and helpers that parse responses.

use serde_json::{Value, json};
use trainyard_core::{Error, Result};
use trainyard_http::JsonRequest;
use trainyard_tables::SamplingParams;

/// Distribution of the returned log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogprobsMode {
    /// The distribution that was sampled from.
    Sampled,
    /// The distribution before truncation by top-k and top-p.
    Tempered,
    /// The model's distribution: temperature 1, no truncation.
    Plain,
}

/// The model's name in requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModelName {
    /// The served model.
    pub model: String,
    /// An adapter of the model that the server has loaded.
    pub adapter: Option<String>,
}

impl ServedModelName {
    /// Returns the name for the `model` field of a request: adapters are separate models.
    pub fn request_model(&self) -> &str {
        self.adapter.as_ref().unwrap_or(&self.model)
    }
}

/// Request for a turn.
#[derive(Debug, Clone, Copy)]
pub struct EndpointTurnRequest<'a> {
    pub model: &'a ServedModelName,
    /// All tokens so far.
    pub tokens: &'a [u32],
    pub sampling: SamplingParams,
    /// Stop tokens, which end the turn and are part of the result.
    pub stop: &'a [u32],
    /// Maximum number of tokens to sample.
    pub max_tokens: usize,
    pub seed: u64,
    /// Number of most probable tokens to list for the first token.
    pub top: usize,
}

/// Result of a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndpointTurnOutput {
    /// Tokens, including a stop token.
    pub tokens: Vec<u32>,
    /// Log-probabilities, one per token; NaN where the server returns no value.
    pub logprobs: Vec<f32>,
    /// The most probable tokens at the first one.
    pub top: Vec<(u32, f64)>,
}

/// A server's protocol.
pub trait Dialect: Send + Sync {
    /// Returns the name in messages.
    fn name(&self) -> &'static str;
    /// Builds the request for a turn.
    fn turn_request(&self, request: &EndpointTurnRequest<'_>) -> JsonRequest;
    /// Parses the response to a turn. Errors: data, naming the missing or invalid field.
    fn parse_turn(&self, response: &Value) -> Result<EndpointTurnOutput>;
    /// Builds the request for log-probabilities of a given sequence, or `None` if the server has no such request.
    fn prompt_logprobs_request(&self, model: &ServedModelName, tokens: &[u32]) -> Option<JsonRequest>;
    /// Parses the response with the log-probabilities of `tokens`, one per token; the first is 0.
    fn parse_prompt_logprobs(&self, response: &Value, tokens: &[u32]) -> Result<Vec<f32>>;
    /// Builds the request for the token ids of a text, with special tokens parsed and none added. The default is the
    /// form of vLLM and SGLang.
    fn tokenize(&self, model: &ServedModelName, text: &str) -> JsonRequest {
        JsonRequest::post("/tokenize", json!({"model": model.model, "prompt": text, "add_special_tokens": false}))
    }
    /// Returns the request for the length of the context, and the JSON pointer to the value in the response.
    fn context(&self) -> (JsonRequest, &'static str) {
        (JsonRequest::get("/v1/models"), "/data/0/max_model_len")
    }
    /// Returns the distribution of the log-probabilities, or `None` if only a probe can determine it.
    fn logprobs_mode(&self) -> Option<LogprobsMode> {
        None
    }
    /// Returns the protocol for weight updates, or `None` if they are not supported.
    fn weight_updates(&self) -> Option<&dyn WeightUpdateApi> {
        None
    }
}

/// A server's protocol for weight updates.
pub trait WeightUpdateApi: Send + Sync {
    /// Builds the requests, in order, that load weights from a folder.
    fn reload(&self, folder: &str, version: u32) -> Vec<JsonRequest>;
    /// Builds the request that loads an adapter under a name.
    fn load_adapter(&self, name: &str, folder: &str) -> JsonRequest;
    /// Builds the request that unloads an adapter.
    fn unload_adapter(&self, name: &str) -> JsonRequest;
    /// Checks the response to one of these requests. Errors: invalid, if it reports a failure.
    fn check_response(&self, response: &Value) -> Result<()>;
}

/// Returns the value at a JSON pointer. Errors: data, naming the pointer.
pub(super) fn at<'a>(response: &'a Value, pointer: &str) -> Result<&'a Value> {
    response.pointer(pointer).filter(|value| !value.is_null()).ok_or_else(|| missing(pointer))
}

pub(super) fn missing(pointer: &str) -> Error {
    let field = pointer.trim_start_matches('/').replace('/', ".");
    Error::data(format!("the response has no `{field}`"))
        .help("use a server version that returns token ids and log-probabilities, and set its kind in `server`")
}

pub(super) fn list<'a>(response: &'a Value, pointer: &str) -> Result<&'a Vec<Value>> {
    at(response, pointer)?.as_array().ok_or_else(|| malformed(pointer))
}

pub(super) fn malformed(what: &str) -> Error {
    Error::data(format!("the response's `{}` has an unexpected form", what.trim_start_matches('/').replace('/', ".")))
        .help("set the server's kind in `server`")
}

/// Reads a list of token ids. Errors: data, naming `what`.
pub fn ids(list: &[Value], what: &str) -> Result<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    list.iter().map(id).collect::<Option<_>>().ok_or_else(|| malformed(what))
}

/// Reads a log-probability, which must be finite and may exceed 0 by rounding only. Errors: data, naming `what`.
pub(super) fn logprob(value: &Value, what: &str) -> Result<f32> {
    let number = value.as_f64().ok_or_else(|| malformed(what))?;
    if number.is_finite() && number <= 1e-3 {
        return Ok(number.min(0.0) as f32);
    }
    Err(Error::data(format!("the response's `{what}` contains {number}, which is not a log-probability"))
        .help("start the server so that it returns log-probabilities: vLLM without a `--logprobs-mode` of logits"))
}
