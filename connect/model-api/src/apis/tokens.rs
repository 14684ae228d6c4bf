//! Writes tokens and the reason of a turn's end as OpenAI's APIs and vLLM list them.

use crate::request::ModelRequest;
use crate::response::{ApiFinishReason, SampledToken};
use serde_json::{Value, json};

/// Returns the text of a token, or its id if the request selects ids.
pub fn name(request: &ModelRequest, id: u32, text: &str) -> String {
    if request.tokens_as_ids { format!("token_id:{id}") } else { text.to_string() }
}

/// Returns the bytes of a token's text, or null if the token ends within a character.
pub fn bytes(text: &str) -> Value {
    if text.contains('\u{fffd}') { Value::Null } else { json!(text.as_bytes()) }
}

/// Returns a token with its log-probability and the most probable alternatives, as chat completions and responses list
/// it.
pub fn listed(request: &ModelRequest, token: &SampledToken) -> Value {
    let top = token.top.iter().map(
        |top| json!({"token": name(request, top.id, &top.text), "logprob": top.logprob, "bytes": bytes(&top.text)}),
    );
    json!({
        "token": name(request, token.id, &token.text), "logprob": token.logprob, "bytes": bytes(&token.text),
        "top_logprobs": top.collect::<Vec<_>>(),
    })
}

/// Returns the token ids of a turn.
pub fn ids(tokens: &[SampledToken]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

/// Returns OpenAI's name for the reason of a turn's end.
pub fn finish(finish: &ApiFinishReason) -> &'static str {
    match finish {
        ApiFinishReason::End | ApiFinishReason::Text(_) | ApiFinishReason::Token(_) => "stop",
        ApiFinishReason::Calls => "tool_calls",
        ApiFinishReason::Length => "length",
    }
}

/// Returns the stop text or token id that ended a turn, as vLLM reports it. Other reasons give null.
pub fn stop_reason(finish: &ApiFinishReason) -> Value {
    match finish {
        ApiFinishReason::Text(text) => json!(text),
        ApiFinishReason::Token(id) => json!(id),
        ApiFinishReason::End | ApiFinishReason::Calls | ApiFinishReason::Length => Value::Null,
    }
}
