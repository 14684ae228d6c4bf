//! Reads and writes OpenAI's completions of texts and token ids, with vLLM's extensions.

use super::chat_write::usage;
use super::common;
use super::fields::{FieldResult, RequestFields};
use super::stream::{ResponseIdentity, ServerSentEvent, StreamWriter};
use super::tokens;
use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelPrompt, ModelRequest};
use crate::response::{ApiFinishReason, ChoiceDelta, ModelResponse, ResponseChoice, SampledToken};
use serde_json::{Map, Value, json};

/// Default limit of sampled tokens in OpenAI's API.
const DEFAULT_MAX_TOKENS: usize = 16;

/// Reads a request. Errors: an invalid or unsupported field, with its path.
pub fn read(body: &Value) -> FieldResult<ModelRequest> {
    let fields = RequestFields::new(body, "")?;
    // The server adds no tokens to a prompt, so `add_special_tokens` is not checked.
    fields.expect_neutral(&[("suffix", &[json!("")]), ("echo", &[json!(false)])])?;
    let prompt = prompt(&fields)?;
    let mut request = ModelRequest::new(ApiKind::Completions, fields.text("model")?.unwrap_or_default(), prompt);
    common::sampling(&fields, &mut request)?;
    request.max_tokens = Some(common::limit(&fields, &["max_tokens"])?.unwrap_or(DEFAULT_MAX_TOKENS));
    request.logprobs = common::top(&fields, "logprobs")?;
    Ok(request)
}

fn prompt(fields: &RequestFields<'_>) -> FieldResult<ModelPrompt> {
    let several = || fields.wrong("prompt", "contains several prompts; send one request per prompt");
    let of_list = |list: &[Value]| match list {
        [] => Err(fields.wrong("prompt", "is empty")),
        [Value::String(text)] => Ok(ModelPrompt::Text(text.clone())),
        [Value::String(_), ..] | [Value::Array(_), _, ..] => Err(several()),
        ids => {
            let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
            ids.map(ModelPrompt::Tokens).ok_or_else(|| fields.wrong("prompt", "must be a text or a list of token ids"))
        }
    };
    match fields.get("prompt") {
        None => Err(fields.wrong("prompt", "is missing")),
        Some(Value::String(text)) if text.is_empty() => Err(fields.wrong("prompt", "is empty")),
        Some(Value::String(text)) => Ok(ModelPrompt::Text(text.clone())),
        Some(Value::Array(list)) => match list.as_slice() {
            [Value::Array(inner)] => of_list(inner),
            list => of_list(list),
        },
        Some(_) => Err(fields.wrong("prompt", "must be a text or a list of token ids")),
    }
}

/// Writes the complete response.
pub fn write(request: &ModelRequest, response: &ModelResponse, identity: &ResponseIdentity) -> Value {
    let choice = |(index, choice): (usize, &ResponseChoice)| {
        let mut value = part(request, index, &full_text(choice), &choice.tokens, 0);
        end(&mut value, &choice.finish);
        value["prompt_logprobs"] = prompt_logprobs(response);
        if request.token_ids {
            value["prompt_token_ids"] = json!(response.prompt_ids);
        }
        value
    };
    let mut body = head(request, identity);
    body["choices"] = response.choices.iter().enumerate().map(choice).collect();
    body["usage"] = usage(&response.usage);
    body
}

/// Returns the thoughts and the text: this API does not separate them.
fn full_text(choice: &ResponseChoice) -> String {
    format!("{}{}", choice.thinking, choice.text)
}

fn head(request: &ModelRequest, identity: &ResponseIdentity) -> Value {
    json!({"id": identity.id, "object": "text_completion", "created": identity.created, "model": request.model})
}

/// Returns the choice of a chunk with `text`, which begins after `offset` characters.
fn part(request: &ModelRequest, index: usize, text: &str, list: &[SampledToken], offset: usize) -> Value {
    let mut value = json!({
        "index": index, "text": text, "finish_reason": null, "logprobs": logprobs(request, list, offset),
    });
    if request.token_ids {
        value["token_ids"] = json!(tokens::ids(list));
    }
    value
}

fn end(value: &mut Value, finish: &ApiFinishReason) {
    value["finish_reason"] = json!(tokens::finish(finish));
    value["stop_reason"] = tokens::stop_reason(finish);
}

fn logprobs(request: &ModelRequest, list: &[SampledToken], offset: usize) -> Value {
    if request.logprobs.is_none() {
        return Value::Null;
    }
    let mut at = offset;
    let mut offset_of = |token: &SampledToken| {
        let start = at;
        at += token.text.chars().count();
        start
    };
    let offsets: Vec<usize> = list.iter().map(&mut offset_of).collect();
    let top = |token: &SampledToken| {
        let pairs = token.top.iter().map(|top| (tokens::name(request, top.id, &top.text), json!(top.logprob)));
        let sampled = (tokens::name(request, token.id, &token.text), json!(token.logprob));
        pairs.chain([sampled]).collect::<Map<String, Value>>()
    };
    json!({
        "tokens": list.iter().map(|token| tokens::name(request, token.id, &token.text)).collect::<Vec<_>>(),
        "token_logprobs": list.iter().map(|token| token.logprob).collect::<Vec<_>>(),
        "top_logprobs": list.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}

/// Returns log-probabilities of the prompt as vLLM lists them, with null for the first token.
fn prompt_logprobs(response: &ModelResponse) -> Value {
    let Some(logprobs) = &response.prompt_logprobs else { return Value::Null };
    let one = |(id, logprob): (&u32, &f32)| json!({id.to_string(): {"logprob": logprob}});
    let rest = response.prompt_ids.iter().zip(logprobs).skip(1).map(one);
    std::iter::once(Value::Null).chain(rest).collect()
}

/// Writer of a response in chunks.
pub struct CompletionsStreamWriter {
    request: ModelRequest,
    identity: ResponseIdentity,
    /// Characters of the tokens of each choice so far.
    offsets: Vec<usize>,
}

impl CompletionsStreamWriter {
    pub fn new(request: &ModelRequest, identity: &ResponseIdentity) -> Self {
        Self { request: request.clone(), identity: identity.clone(), offsets: vec![0; request.n] }
    }
    fn chunk(&self, choices: Value) -> ServerSentEvent {
        let mut chunk = head(&self.request, &self.identity);
        chunk["choices"] = choices;
        ServerSentEvent::plain(chunk)
    }
}

impl StreamWriter for CompletionsStreamWriter {
    fn begin(&mut self) -> Vec<ServerSentEvent> {
        Vec::new()
    }
    fn write_delta(&mut self, piece: &ChoiceDelta) -> Vec<ServerSentEvent> {
        let text = format!("{}{}", piece.thinking, piece.text);
        let listed = self.request.token_ids || self.request.logprobs.is_some();
        let has_tokens = listed && !piece.tokens.is_empty();
        if text.is_empty() && !has_tokens {
            return Vec::new();
        }
        let offset = self.offsets.get(piece.choice).copied().unwrap_or(0);
        if let Some(at) = self.offsets.get_mut(piece.choice) {
            *at += piece.tokens.iter().map(|token| token.text.chars().count()).sum::<usize>();
        }
        vec![self.chunk(json!([part(&self.request, piece.choice, &text, &piece.tokens, offset)]))]
    }
    fn end(&mut self, response: &ModelResponse) -> Vec<ServerSentEvent> {
        let last = |(index, choice): (usize, &ResponseChoice)| {
            let mut value = part(&self.request, index, "", &[], 0);
            value["logprobs"] = Value::Null;
            end(&mut value, &choice.finish);
            self.chunk(json!([value]))
        };
        let mut events: Vec<ServerSentEvent> = response.choices.iter().enumerate().map(last).collect();
        if self.request.stream_usage {
            let mut chunk = head(&self.request, &self.identity);
            (chunk["choices"], chunk["usage"]) = (json!([]), usage(&response.usage));
            events.push(ServerSentEvent::plain(chunk));
        }
        events.push(ServerSentEvent { name: None, data: None });
        events
    }
    fn fail(&mut self, refusal: &ModelApiError) -> Vec<ServerSentEvent> {
        vec![ServerSentEvent::plain(refusal.body(ApiKind::Completions)), ServerSentEvent { name: None, data: None }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::TopLogprob;

    #[test]
    fn prompt_is_text_or_token_ids() {
        let of = |prompt: Value| read(&json!({"model": "m", "prompt": prompt}));
        assert_eq!(of(json!("a")).unwrap().prompt, ModelPrompt::Text("a".into()));
        assert_eq!(of(json!(["a"])).unwrap().prompt, ModelPrompt::Text("a".into()));
        for ids in [json!([1, 2]), json!([[1, 2]])] {
            assert_eq!(of(ids).unwrap().prompt, ModelPrompt::Tokens(vec![1, 2]));
        }
        assert_eq!(of(json!("a")).unwrap().max_tokens, Some(16));
        for wrong in [json!(""), json!([]), json!([[]]), json!(["a", "b"]), json!([[1], [2]]), json!([-1]), json!(3)] {
            assert_eq!(of(wrong.clone()).unwrap_err().param.as_deref(), Some("prompt"), "{wrong}");
        }
        assert!(read(&json!({"prompt": "a", "echo": true})).is_err() && read(&json!({})).is_err());
    }

    /// The request is that of the backend `endpoint` to a vLLM server.
    #[test]
    fn vllm_extensions_are_read_and_written() {
        let request = read(&json!({
            "model": "m", "prompt": [1, 2], "max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "seed": u64::MAX >> 1,
            "stop_token_ids": [4], "ignore_eos": true, "include_stop_str_in_output": true,
            "skip_special_tokens": false, "add_special_tokens": false, "logprobs": 1, "return_token_ids": true,
            "return_tokens_as_token_ids": true, "prompt_logprobs": 0,
        }))
        .unwrap();
        assert_eq!((request.seed, request.logprobs, request.prompt_logprobs), (Some(u64::MAX >> 1), Some(1), true));
        let top = vec![TopLogprob { id: 7, text: "x".into(), logprob: -0.1 }];
        let choice = ResponseChoice {
            text: "ab".into(),
            tokens: vec![SampledToken { id: 3, text: "ab".into(), logprob: Some(-2.0), top }],
            finish: ApiFinishReason::Token(4),
            ..ResponseChoice::default()
        };
        let response = ModelResponse {
            choices: vec![choice],
            prompt_ids: vec![1, 2],
            prompt_logprobs: Some(vec![0.0, -1.5]),
            ..ModelResponse::default()
        };
        let body = write(&request, &response, &ResponseIdentity { id: "cmpl-1".into(), created: 5 });
        let choice = &body["choices"][0];
        assert_eq!((&choice["token_ids"], &choice["stop_reason"]), (&json!([3]), &json!(4)));
        assert_eq!(choice["logprobs"]["top_logprobs"], json!([{"token_id:7": -0.1f32, "token_id:3": -2.0}]));
        assert_eq!(choice["logprobs"]["token_logprobs"], json!([-2.0]));
        assert_eq!(choice["prompt_logprobs"], json!([null, {"2": {"logprob": -1.5}}]));
    }
}
