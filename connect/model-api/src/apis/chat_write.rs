//! Responses of OpenAI's chat completions.

use super::stream::{ResponseIdentity, ServerSentEvent, StreamWriter};
use super::tokens;
use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelRequest};
use crate::response::{ChoiceDelta, ModelResponse, ResponseChoice, SampledToken, Usage, call_json};
use serde_json::{Value, json};

/// Writes the whole response.
pub fn write(asked: &ModelRequest, answered: &ModelResponse, stamp: &ResponseIdentity) -> Value {
    let choices: Vec<Value> =
        answered.choices.iter().enumerate().map(|(index, choice)| whole(asked, index, choice)).collect();
    let mut answer = head(asked, stamp, "chat.completion");
    answer["choices"] = json!(choices);
    answer["usage"] = usage(&answered.usage);
    if asked.token_ids {
        answer["prompt_token_ids"] = json!(answered.prompt_ids);
    }
    answer
}

fn head(asked: &ModelRequest, stamp: &ResponseIdentity, object: &str) -> Value {
    json!({
        "id": stamp.id, "object": object, "created": stamp.created, "model": asked.model,
        "system_fingerprint": null,
    })
}

fn whole(asked: &ModelRequest, index: usize, choice: &ResponseChoice) -> Value {
    let silent = choice.text.is_empty() && !choice.calls.is_empty();
    let content = if silent { Value::Null } else { json!(choice.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !choice.thinking.is_empty() {
        message["reasoning_content"] = json!(choice.thinking);
    }
    if !choice.calls.is_empty() {
        message["tool_calls"] = choice.calls.iter().map(call_json).collect();
    }
    let mut value = json!({
        "index": index, "message": message, "finish_reason": tokens::finish(&choice.finish),
        "stop_reason": tokens::stop_reason(&choice.finish), "logprobs": logprobs(asked, &choice.tokens),
    });
    if asked.token_ids {
        value["token_ids"] = json!(tokens::ids(&choice.tokens));
    }
    value
}

fn logprobs(asked: &ModelRequest, list: &[SampledToken]) -> Value {
    match asked.logprobs {
        None => Value::Null,
        Some(_) => {
            let content: Vec<Value> = list.iter().map(|token| tokens::listed(asked, token)).collect();
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

/// The response in chunks.
pub struct ChatStreamWriter {
    asked: ModelRequest,
    stamp: ResponseIdentity,
    /// Number of calls of every choice so far.
    calls: Vec<usize>,
}

impl ChatStreamWriter {
    pub fn new(asked: &ModelRequest, stamp: &ResponseIdentity) -> Self {
        Self { asked: asked.clone(), stamp: stamp.clone(), calls: vec![0; asked.n] }
    }
    fn chunk(&self, choices: Value) -> ServerSentEvent {
        let mut chunk = head(&self.asked, &self.stamp, "chat.completion.chunk");
        chunk["choices"] = choices;
        if self.asked.stream_usage {
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
        (0..self.asked.n).map(|index| self.chunk(json!([first(index)]))).collect()
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
        let listed = self.asked.token_ids || self.asked.logprobs.is_some();
        let told = listed && !piece.tokens.is_empty();
        if delta.as_object().is_some_and(serde_json::Map::is_empty) && !told {
            return Vec::new();
        }
        let mut choice = self.delta(piece.choice, delta);
        choice["logprobs"] = logprobs(&self.asked, &piece.tokens);
        if self.asked.token_ids {
            choice["token_ids"] = json!(tokens::ids(&piece.tokens));
        }
        vec![self.chunk(json!([choice]))]
    }
    fn end(&mut self, answered: &ModelResponse) -> Vec<ServerSentEvent> {
        let last = |(index, choice): (usize, &ResponseChoice)| {
            let mut value = self.delta(index, json!({}));
            value["finish_reason"] = json!(tokens::finish(&choice.finish));
            value["stop_reason"] = tokens::stop_reason(&choice.finish);
            self.chunk(json!([value]))
        };
        let mut events: Vec<ServerSentEvent> = answered.choices.iter().enumerate().map(last).collect();
        if self.asked.stream_usage {
            let mut chunk = head(&self.asked, &self.stamp, "chat.completion.chunk");
            chunk["choices"] = json!([]);
            chunk["usage"] = usage(&answered.usage);
            events.push(ServerSentEvent::plain(chunk));
        }
        if self.asked.token_ids
            && let Some(Some(first)) = events.first_mut().map(|event| event.data.as_mut())
        {
            first["prompt_token_ids"] = json!(answered.prompt_ids);
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

    fn asked() -> ModelRequest {
        ModelRequest::new(ApiKind::Chat, "m", ModelPrompt::Messages(vec![Message::new("user", "x")]))
    }
    fn stamp() -> ResponseIdentity {
        ResponseIdentity { id: "chatcmpl-1".into(), created: 5 }
    }
    fn token(id: u32, text: &str) -> SampledToken {
        let top = vec![TopLogprob { id: 9, text: "q".into(), logprob: -0.25 }];
        SampledToken { id, text: text.into(), logprob: Some(-0.5), top }
    }
    fn answered() -> ModelResponse {
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
    fn a_turn_with_calls_has_no_content() {
        let asked = ModelRequest { logprobs: Some(1), token_ids: true, ..asked() };
        let answer = write(&asked, &answered(), &stamp());
        let choice = &answer["choices"][0];
        assert_eq!((&answer["object"], &answer["created"]), (&json!("chat.completion"), &json!(5)));
        assert_eq!(choice["message"]["content"], Value::Null);
        assert_eq!(choice["message"]["tool_calls"][0]["function"], json!({"name": "sum", "arguments": "{\"a\":2}"}));
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["reasoning_content"]),
            (&json!("tool_calls"), &json!("hm"))
        );
        assert_eq!((&choice["token_ids"], &answer["prompt_token_ids"]), (&json!([3, 4]), &json!([1, 2])));
        let listed = &choice["logprobs"]["content"];
        assert_eq!((&listed[0]["bytes"], &listed[1]["bytes"]), (&json!([97]), &Value::Null));
        assert_eq!(listed[0]["top_logprobs"], json!([{"token": "q", "logprob": -0.25, "bytes": [113]}]));
        assert_eq!(answer["usage"]["total_tokens"], 7);
    }

    #[test]
    fn chunks_add_up_to_the_answer() {
        let asked = ModelRequest { stream_usage: true, ..asked() };
        let mut chunks = ChatStreamWriter::new(&asked, &stamp());
        let mut events = chunks.begin();
        let text =
            |text: &str| ChoiceDelta { text: text.into(), tokens: vec![token(1, text)], ..ChoiceDelta::default() };
        events.extend(chunks.write_delta(&text("4")));
        events.extend(chunks.write_delta(&ChoiceDelta { tokens: vec![token(2, "")], ..ChoiceDelta::default() }));
        let calls = answered().choices[0].calls.clone();
        for _ in 0..2 {
            events.extend(chunks.write_delta(&ChoiceDelta { calls: calls.clone(), ..ChoiceDelta::default() }));
        }
        events.extend(chunks.end(&answered()));
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
        assert_eq!((data.len(), events.len()), (6, 7), "a token without text makes no event of its own");
        assert_eq!(events[6].text(), "data: [DONE]\n\n");
    }
}
