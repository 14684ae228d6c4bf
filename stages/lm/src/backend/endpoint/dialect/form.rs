//! What all dialects are made of: a turn that is asked for, what was told, and how answers are read.

use serde_json::{Value, json};
use trainyard_core::{Error, Result};
use trainyard_http::Call;
use trainyard_tables::Sampling;

/// Which distribution returned log-probabilities are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The one that was sampled from.
    Sampled,
    /// That before truncation by top-k and top-p.
    Tempered,
    /// The model's own: temperature 1, no truncation.
    Plain,
}

/// The model as requests name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The served model.
    pub model: String,
    /// An adapter of it that the server has loaded.
    pub adapter: Option<String>,
}

impl Name {
    /// The name that a request gives where it gives one: adapters are models of their own.
    pub fn of_request(&self) -> &str {
        self.adapter.as_ref().unwrap_or(&self.model)
    }
}

/// A turn to sample.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub model: &'a Name,
    /// Everything so far.
    pub tokens: &'a [u32],
    pub sampling: Sampling,
    /// Sampling one of these ends the turn; it is part of the answer.
    pub stop: &'a [u32],
    /// Most tokens to sample.
    pub most: usize,
    pub seed: u64,
    /// Most probable tokens to list for the first token.
    pub top: usize,
}

/// What was sampled.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Told {
    /// The tokens, a stop token included.
    pub tokens: Vec<u32>,
    /// One per token; NaN where the server gives none.
    pub logprobs: Vec<f32>,
    /// The most probable tokens at the first one.
    pub top: Vec<(u32, f64)>,
}

/// A server's way to talk.
pub trait Dialect: Send + Sync {
    /// As messages call it.
    fn name(&self) -> &'static str;
    /// Asks for a turn.
    fn turn(&self, ask: &Ask<'_>) -> Call;
    /// The turn. Errors: data, naming the field that is missing or not understood.
    fn told(&self, answer: &Value) -> Result<Told>;
    /// Asks for log-probabilities of a given sequence; none if the server has no such request.
    fn force(&self, model: &Name, tokens: &[u32]) -> Option<Call>;
    /// Those, one per token; the first is 0.
    fn forced(&self, answer: &Value, tokens: &[u32]) -> Result<Vec<f32>>;
    /// Asks for the token ids of a text, special tokens understood and none added. The default is what vLLM and SGLang
    /// take.
    fn tokenize(&self, model: &Name, text: &str) -> Call {
        Call::post("/tokenize", json!({"model": model.model, "prompt": text, "add_special_tokens": false}))
    }
    /// Where the length of the context is told, and the pointer to it.
    fn context(&self) -> (Call, &'static str) {
        (Call::get("/v1/models"), "/data/0/max_model_len")
    }
    /// What log-probabilities mean, where that is not for a probe to find out.
    fn meaning(&self) -> Option<Meaning> {
        None
    }
    /// How it takes weights; none if it cannot.
    fn hand_over(&self) -> Option<&dyn HandOver> {
        None
    }
}

/// A server's way to take weights.
pub trait HandOver: Send + Sync {
    /// Makes it read weights from a folder: requests in their order.
    fn reload(&self, folder: &str, version: u32) -> Vec<Call>;
    /// Makes it read an adapter under a name.
    fn load_adapter(&self, name: &str, folder: &str) -> Call;
    /// Makes it forget one.
    fn unload_adapter(&self, name: &str) -> Call;
    /// Errors: invalid, if the answer says that the request has failed.
    fn done(&self, answer: &Value) -> Result<()>;
}

/// What is at a pointer. Errors: data, naming it.
pub(super) fn at<'a>(answer: &'a Value, pointer: &str) -> Result<&'a Value> {
    answer.pointer(pointer).filter(|value| !value.is_null()).ok_or_else(|| missing(pointer))
}

pub(super) fn missing(pointer: &str) -> Error {
    let field = pointer.trim_start_matches('/').replace('/', ".");
    Error::data(format!("the answer has no `{field}`"))
        .help("use a server of a version that returns token ids and log-probabilities, and name its kind in `server`")
}

pub(super) fn list<'a>(answer: &'a Value, pointer: &str) -> Result<&'a Vec<Value>> {
    at(answer, pointer)?.as_array().ok_or_else(|| odd(pointer))
}

pub(super) fn odd(what: &str) -> Error {
    Error::data(format!("`{}` of the answer is not understood", what.trim_start_matches('/').replace('/', ".")))
        .help("name the kind of the server in `server`")
}

/// Token ids in a list.
pub fn ids(list: &[Value], what: &str) -> Result<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    list.iter().map(id).collect::<Option<_>>().ok_or_else(|| odd(what))
}

/// A log-probability: finite, and above 0 by rounding only.
pub(super) fn logprob(value: &Value, what: &str) -> Result<f32> {
    let number = value.as_f64().ok_or_else(|| odd(what))?;
    if number.is_finite() && number <= 1e-3 {
        return Ok(number.min(0.0) as f32);
    }
    Err(Error::data(format!("`{what}` of the answer holds {number}, which is no log-probability"))
        .help("the server must return log-probabilities: of vLLM, `--logprobs-mode` must not be one of logits"))
}
