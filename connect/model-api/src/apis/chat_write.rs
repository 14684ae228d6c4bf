//! Writes responses of OpenAI's chat completions.

use super::stream::{ResponseIdentity, ServerSentEvent, StreamWriter};
use super::tokens;
use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelRequest};
use crate::response::{ChoiceDelta, ModelResponse, ResponseChoice, SampledToken, Usage, call_json};
use serde_json::{Value, json};

/// Writes the complete response.
pub fn write(request: &ModelRequest, response: &ModelResponse, identity: &ResponseIdentity) -> Value {
    let choices: Vec<Value> =
        response.choices.iter().enumerate().map(|(index, choice)| whole(request, index, choice)).collect();
    let mut body = head(request, identity, "chat.completion");
    body["choices"] = json!(choices);
    body["usage"] = usage(&response.usage);
    if request.token_ids {
        body["prompt_token_ids"] = json!(response.prompt_ids);
    }
    body
}

fn head(request: &ModelRequest, identity: &ResponseIdentity, object: &str) -> Value {
    json!({
        "id": identity.id, "object": object, "created": identity.created, "model": request.model,
        "system_fingerprint": null,
    })
}

fn whole(request: &ModelRequest, index: usize, choice: &ResponseChoice) -> Value {
    let only_calls = choice.text.is_empty() && !choice.calls.is_empty();
    let content = if only_calls { Value::Null } else { json!(choice.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !choice.thinking.is_empty() {
        message["reasoning_content"] = json!(choice.thinking);
    }
    if !choice.calls.is_empty() {
        message["tool_calls"] = choice.calls.iter().map(call_json).collect();
    }
    let mut value = json!({
        "index": index, "message": message, "finish_reason": tokens::finish(&choice.finish),
        "stop_reason": tokens::stop_reason(&choice.finish), "logprobs": logprobs(request, &choice.tokens),
    });
    if request.token_ids {
        value["token_ids"] = json!(tokens::ids(&choice.tokens));
    }
    value
}

fn logprobs(request: &ModelRequest, list: &[SampledToken]) -> Value {
    match request.logprobs {
        None => Value::Null,
        Some(_) => {
            let content: Vec<Value> = list.iter().map(|token| tokens::listed(request, token)).collect();
            json!({"content": content, "refusal": null})
        }
    }
}

pub fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt, "completion_tokens": usage.sampled,
        "total_tokens": usage.prompt + usage.sampled,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking},
    })
}

/// Writer of a response in chunks.
pub struct ChatStreamWriter {
    request: ModelRequest,
    identity: ResponseIdentity,
    /// Number of calls of every choice so far.
    calls: Vec<usize>,
}

impl ChatStreamWriter {
    pub fn new(request: &ModelRequest, identity: &ResponseIdentity) -> Self {
        Self { request: request.clone(), identity: identity.clone(), calls: vec![0; request.n] }
    }
    fn chunk(&self, choices: Value) -> ServerSentEvent {
        let mut chunk = head(&self.request, &self.identity, "chat.completion.chunk");
        chunk["choices"] = choices;
        if self.request.stream_usage {
            chunk["usage"] = Value::Null;
        }
        ServerSentEvent::plain(chunk)
    }
    fn delta(&self, index: usize, delta: Value) -> Value {
        json!({"index": index, "delta": delta, "finish_reason": null, "logprobs": null})
    }
}

impl StreamWriter for ChatStreamWriter {
    fn begin(&mut self) -> Vec<ServerSentEvent> {
        let first = |index| self.delta(index, json!({"role": "assistant", "content": ""}));
        (0..self.request.n).map(|index| self.chunk(json!([first(index)]))).collect()
    }
    fn write_delta(&mut self, piece: &ChoiceDelta) -> Vec<ServerSentEvent> {
        let mut delta = json!({});
        if !piece.thinking.is_empty() {
            delta["reasoning_content"] = json!(piece.thinking);
        }
        if !piece.text.is_empty() {
            delta["content"] = json!(piece.text);
        }
        let first = self.calls.get(piece.choice).copied().unwrap_or(0);
        let calls = piece.calls.iter().enumerate().map(|(i, call)| {
            let mut call = call_json(call);
            call["index"] = json!(first + i);
            call
        });
        let calls: Vec<Value> = calls.collect();
        if let Some(count) = self.calls.get_mut(piece.choice) {
            *count += calls.len();
        }
        if !calls.is_empty() {
            delta["tool_calls"] = json!(calls);
        }
        let listed = self.request.token_ids || self.request.logprobs.is_some();
        let has_tokens = listed && !piece.tokens.is_empty();
        if delta.as_object().is_some_and(serde_json::Map::is_empty) && !has_tokens {
            return Vec::new();
        }
        let mut choice = self.delta(piece.choice, delta);
        choice["logprobs"] = logprobs(&self.request, &piece.tokens);
        if self.request.token_ids {
            choice["token_ids"] = json!(tokens::ids(&piece.tokens));
        }
        vec![self.chunk(json!([choice]))]
    }
    fn end(&mut self, response: &ModelResponse) -> Vec<ServerSentEvent> {
        let last = |(index, choice): (usize, &ResponseChoice)| {
            let mut value = self.delta(index, json!({}));
            value["finish_reason"] = json!(tokens::finish(&choice.finish));
            value["stop_reason"] = tokens::stop_reason(&choice.finish);
            self.chunk(json!([value]))
        };
        let mut events: Vec<ServerSentEvent> = response.choices.iter().enumerate().map(last).collect();
        if self.request.stream_usage {
            let mut chunk = head(&self.request, &self.identity, "chat.completion.chunk");
            chunk["choices"] = json!([]);
            chunk["usage"] = usage(&response.usage);
            events.push(ServerSentEvent::plain(chunk));
        }
        if self.request.token_ids
            && let Some(Some(first)) = events.first_mut().map(|event| event.data.as_mut())
        {
            first["prompt_token_ids"] = json!(response.prompt_ids);
        }
        events.push(ServerSentEvent { name: None, data: None });
        events
    }
    fn fail(&mut self, refusal: &ModelApiError) -> Vec<ServerSentEvent> {
        vec![ServerSentEvent::plain(refusal.body(ApiKind::Chat)), ServerSentEvent { name: None, data: None }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ModelPrompt;
    use crate::response::{ApiFinishReason, ApiToolCall, TopLogprob};
    use trainyard_tables::Message;

    fn request() -> ModelRequest {
        ModelRequest::new(ApiKind::Chat, "m", ModelPrompt::Messages(vec![Message::new("user", "x")]))
    }
    fn identity() -> ResponseIdentity {
        ResponseIdentity { id: "chatcmpl-1".into(), created: 5 }
    }
    fn token(id: u32, text: &str) -> SampledToken {
        let top = vec![TopLogprob { id: 9, text: "q".into(), logprob: -0.25 }];
        SampledToken { id, text: text.into(), logprob: Some(-0.5), top }
    }
    fn response() -> ModelResponse {
        let calls = vec![ApiToolCall { id: "call_1".into(), name: "sum".into(), arguments: "{\"a\":2}".into() }];
        let choice = ResponseChoice {
            thinking: "hm".into(),
            calls,
            tokens: vec![token(3, "a"), token(4, "\u{fffd}")],
            finish: ApiFinishReason::Calls,
            ..ResponseChoice::default()
        };
        let usage = Usage { prompt: 5, sampled: 2, thinking: 1 };
        ModelResponse { choices: vec![choice], prompt_ids: vec![1, 2], usage, ..ModelResponse::default() }
    }

    #[test]
    fn turn_with_calls_has_no_content() {
        let request = ModelRequest { logprobs: Some(1), token_ids: true, ..request() };
        let body = write(&request, &response(), &identity());
        let choice = &body["choices"][0];
        assert_eq!((&body["object"], &body["created"]), (&json!("chat.completion"), &json!(5)));
        assert_eq!(choice["message"]["content"], Value::Null);
        assert_eq!(choice["message"]["tool_calls"][0]["function"], json!({"name": "sum", "arguments": "{\"a\":2}"}));
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["reasoning_content"]),
            (&json!("tool_calls"), &json!("hm"))
        );
        assert_eq!((&choice["token_ids"], &body["prompt_token_ids"]), (&json!([3, 4]), &json!([1, 2])));
        let listed = &choice["logprobs"]["content"];
        assert_eq!((&listed[0]["bytes"], &listed[1]["bytes"]), (&json!([97]), &Value::Null));
        assert_eq!(listed[0]["top_logprobs"], json!([{"token": "q", "logprob": -0.25, "bytes": [113]}]));
        assert_eq!(body["usage"]["total_tokens"], 7);
    }

    #[test]
    fn chunks_add_up_to_response() {
        let request = ModelRequest { stream_usage: true, ..request() };
        let mut chunks = ChatStreamWriter::new(&request, &identity());
        let mut events = chunks.begin();
        let text =
            |text: &str| ChoiceDelta { text: text.into(), tokens: vec![token(1, text)], ..ChoiceDelta::default() };
        events.extend(chunks.write_delta(&text("4")));
        events.extend(chunks.write_delta(&ChoiceDelta { tokens: vec![token(2, "")], ..ChoiceDelta::default() }));
        let calls = response().choices[0].calls.clone();
        for _ in 0..2 {
            events.extend(chunks.write_delta(&ChoiceDelta { calls: calls.clone(), ..ChoiceDelta::default() }));
        }
        events.extend(chunks.end(&response()));
        let data: Vec<Value> = events.iter().filter_map(|event| event.data.clone()).collect();
        let deltas: Vec<&Value> = data.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
        assert_eq!(*deltas[0], json!({"role": "assistant", "content": ""}));
        assert_eq!(*deltas[1], json!({"content": "4"}));
        assert_eq!(
            (&deltas[2]["tool_calls"][0]["index"], &deltas[3]["tool_calls"][0]["index"]),
            (&json!(0), &json!(1))
        );
        assert_eq!((&data[4]["choices"][0]["finish_reason"], &data[4]["usage"]), (&json!("tool_calls"), &Value::Null));
        assert_eq!((&data[5]["choices"], &data[5]["usage"]["prompt_tokens"]), (&json!([]), &json!(5)));
        assert_eq!((data.len(), events.len()), (6, 7), "a token without text makes no separate event");
        assert_eq!(events[6].text(), "data: [DONE]\n\n");
    }
}
