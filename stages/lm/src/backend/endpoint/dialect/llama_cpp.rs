//! Implements llama.cpp's protocol: `/completion` with `return_tokens` and `n_probs`.
//!
//! The server returns the model's log-probabilities (`logprob`), or with `post_sampling_probs` the probabilities of the
//! sampled distribution (`prob`). The latter are 1 for the chosen token at temperature 0, so greedy turns request the
//! former. A token that ends within a multi-byte character has neither. Turns end only at the model's end tokens, so
//! the caller drops tokens that a server sampled after another stop token.

use super::form::{
    Dialect, EndpointTurnOutput, EndpointTurnRequest, LogprobsMode, ServedModelName, ids, list, logprob, malformed,
};
use serde_json::{Value, json};
use trainyard_core::{Error, Result};
use trainyard_http::JsonRequest;

pub struct LlamaCpp;

impl Dialect for LlamaCpp {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }
    fn turn_request(&self, request: &EndpointTurnRequest<'_>) -> JsonRequest {
        let sampling = request.sampling;
        let plain = sampling.top_p >= 1.0 && sampling.top_k == 0 && sampling.temperature == 1.0;
        let body = json!({
            "prompt": request.tokens,
            "n_predict": request.max_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            // The order matters, and samplers that are not listed are not applied.
            "samplers": ["temperature", "top_k", "top_p"],
            // The highest 32-bit number requests a random seed.
            "seed": (request.seed as u32).min(u32::MAX - 1),
            "n_probs": request.top.max(1),
            "post_sampling_probs": !(plain || sampling.temperature == 0.0),
            "return_tokens": true,
            "cache_prompt": true,
            "stream": false,
        });
        JsonRequest::post("/completion", body)
    }
    fn parse_turn(&self, response: &Value) -> Result<EndpointTurnOutput> {
        if response.get("truncated").and_then(Value::as_bool) == Some(true) {
            return Err(Error::data("the server truncated the prompt to its context")
                .help("start it with a longer context (`--ctx-size`), which its slots (`--parallel`) share"));
        }
        let tokens = ids(list(response, "/tokens")?, "tokens")?;
        let mut entries = list(response, "/completion_probabilities")?.iter().peekable();
        let mut logprobs = Vec::with_capacity(tokens.len());
        let mut top = Vec::new();
        for (position, token) in tokens.iter().enumerate() {
            let is_of = |entry: &&Value| entry.get("id").and_then(Value::as_u64) == Some(u64::from(*token));
            let Some(entry) = entries.next_if(is_of) else {
                logprobs.push(f32::NAN);
                continue;
            };
            logprobs.push(of_entry(entry)?);
            if position == 0 {
                top = most_probable(entry);
            }
        }
        if entries.next().is_some() {
            return Err(malformed("completion_probabilities"));
        }
        Ok(EndpointTurnOutput { tokens, logprobs, top })
    }
    fn prompt_logprobs_request(&self, _model: &ServedModelName, _tokens: &[u32]) -> Option<JsonRequest> {
        None
    }
    fn parse_prompt_logprobs(&self, _response: &Value, _tokens: &[u32]) -> Result<Vec<f32>> {
        Err(Error::bug("llama.cpp does not score given sequences"))
    }
    fn tokenize(&self, _model: &ServedModelName, text: &str) -> JsonRequest {
        JsonRequest::post("/tokenize", json!({"content": text, "add_special": false, "parse_special": true}))
    }
    fn context(&self) -> (JsonRequest, &'static str) {
        (JsonRequest::get("/props"), "/default_generation_settings/n_ctx")
    }
    fn logprobs_mode(&self) -> Option<LogprobsMode> {
        Some(LogprobsMode::Sampled)
    }
}

/// Reads a log-probability, or the log of a probability.
fn of_entry(entry: &Value) -> Result<f32> {
    let what = "completion_probabilities";
    if let Some(number) = entry.get("logprob") {
        return logprob(number, what);
    }
    match entry.get("prob").and_then(Value::as_f64) {
        Some(probability) if probability > 0.0 && probability <= 1.0 + 1e-3 => Ok(probability.min(1.0).ln() as f32),
        _ => Err(malformed(what)),
    }
}

fn most_probable(entry: &Value) -> Vec<(u32, f64)> {
    let listed = entry.get("top_logprobs").and_then(Value::as_array);
    let pair = |one: &Value| Some((u32::try_from(one.get("id")?.as_u64()?).ok()?, one.get("logprob")?.as_f64()?));
    listed.into_iter().flatten().filter_map(pair).collect()
}
