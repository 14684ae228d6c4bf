//! Writes responses of Anthropic's messages.

use super::stream::{ResponseIdentity, ServerSentEvent, StreamWriter};
use super::tokens;
use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelRequest};
use crate::response::{ApiFinishReason, ApiToolCall, ChoiceDelta, ModelResponse, ResponseChoice};
use serde_json::{Value, json};

/// Writes the complete response.
pub fn write(request: &ModelRequest, response: &ModelResponse, identity: &ResponseIdentity) -> Value {
    let empty = ResponseChoice::default();
    let choice = response.choices.first().unwrap_or(&empty);
    let mut content = Vec::new();
    if !choice.thinking.is_empty() {
        content.push(json!({"type": "thinking", "thinking": choice.thinking, "signature": ""}));
    }
    if !choice.text.is_empty() {
        content.push(json!({"type": "text", "text": choice.text}));
    }
    content.extend(choice.calls.iter().map(|call| block(call, input(call))));
    let mut body = message(request, identity, response.usage.prompt);
    body["content"] = json!(content);
    (body["stop_reason"], body["stop_sequence"]) = stop(&choice.finish);
    body["usage"]["output_tokens"] = json!(response.usage.sampled);
    if request.token_ids {
        body["prompt_token_ids"] = json!(response.prompt_ids);
        body["token_ids"] = json!(tokens::ids(&choice.tokens));
    }
    body
}

fn message(request: &ModelRequest, identity: &ResponseIdentity, prompt: usize) -> Value {
    json!({
        "id": identity.id, "type": "message", "role": "assistant", "model": request.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": prompt, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    })
}

fn block(call: &ApiToolCall, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn input(call: &ApiToolCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}))
}

fn stop(finish: &ApiFinishReason) -> (Value, Value) {
    match finish {
        ApiFinishReason::End | ApiFinishReason::Token(_) => (json!("end_turn"), Value::Null),
        ApiFinishReason::Text(text) => (json!("stop_sequence"), json!(text)),
        ApiFinishReason::Calls => (json!("tool_use"), Value::Null),
        ApiFinishReason::Length => (json!("max_tokens"), Value::Null),
    }
}

/// Kinds of blocks to which events append.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Thinking,
    Text,
}

/// Writer of a response as events. The first event does not count the tokens of the prompt; the last event reports
/// them.
pub struct MessagesStreamWriter {
    request: ModelRequest,
    identity: ResponseIdentity,
    blocks: usize,
    open: Option<OpenBlock>,
}

impl MessagesStreamWriter {
    pub fn new(request: &ModelRequest, identity: &ResponseIdentity) -> Self {
        Self { request: request.clone(), identity: identity.clone(), blocks: 0, open: None }
    }
    fn start(&self, block: Value) -> ServerSentEvent {
        ServerSentEvent::named("content_block_start", json!({"index": self.blocks, "content_block": block}))
    }
    fn delta(&self, delta: Value) -> ServerSentEvent {
        ServerSentEvent::named("content_block_delta", json!({"index": self.blocks, "delta": delta}))
    }
    fn stop(&mut self) -> ServerSentEvent {
        let event = ServerSentEvent::named("content_block_stop", json!({"index": self.blocks}));
        self.blocks += 1;
        event
    }
    fn close(&mut self, events: &mut Vec<ServerSentEvent>) {
        if let Some(open) = self.open.take() {
            if open == OpenBlock::Thinking {
                events.push(self.delta(json!({"type": "signature_delta", "signature": ""})));
            }
            events.push(self.stop());
        }
    }
    fn grow(&mut self, kind: OpenBlock, text: &str, events: &mut Vec<ServerSentEvent>) {
        if text.is_empty() {
            return;
        }
        if self.open != Some(kind) {
            self.close(events);
            events.push(self.start(match kind {
                OpenBlock::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
                OpenBlock::Text => json!({"type": "text", "text": ""}),
            }));
            self.open = Some(kind);
        }
        events.push(self.delta(match kind {
            OpenBlock::Thinking => json!({"type": "thinking_delta", "thinking": text}),
            OpenBlock::Text => json!({"type": "text_delta", "text": text}),
        }));
    }
}

impl StreamWriter for MessagesStreamWriter {
    fn begin(&mut self) -> Vec<ServerSentEvent> {
        vec![ServerSentEvent::named("message_start", json!({"message": message(&self.request, &self.identity, 0)}))]
    }
    fn write_delta(&mut self, piece: &ChoiceDelta) -> Vec<ServerSentEvent> {
        let mut events = Vec::new();
        self.grow(OpenBlock::Thinking, &piece.thinking, &mut events);
        self.grow(OpenBlock::Text, &piece.text, &mut events);
        for call in &piece.calls {
            self.close(&mut events);
            events.push(self.start(block(call, json!({}))));
            let text = input(call).to_string();
            events.push(self.delta(json!({"type": "input_json_delta", "partial_json": text})));
            events.push(self.stop());
        }
        events
    }
    fn end(&mut self, response: &ModelResponse) -> Vec<ServerSentEvent> {
        let mut events = Vec::new();
        self.close(&mut events);
        let finish = response.choices.first().map(|choice| choice.finish.clone()).unwrap_or_default();
        let (reason, sequence) = stop(&finish);
        let usage = json!({"input_tokens": response.usage.prompt, "output_tokens": response.usage.sampled});
        let delta = json!({"delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage});
        events.push(ServerSentEvent::named("message_delta", delta));
        events.push(ServerSentEvent::named("message_stop", json!({})));
        events
    }
    fn fail(&mut self, refusal: &ModelApiError) -> Vec<ServerSentEvent> {
        vec![ServerSentEvent { name: Some("error"), data: Some(refusal.body(ApiKind::Messages)) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ModelPrompt;
    use crate::response::Usage;

    fn request() -> ModelRequest {
        ModelRequest::new(ApiKind::Messages, "m", ModelPrompt::Messages(Vec::new()))
    }
    fn response() -> ModelResponse {
        let call = ApiToolCall { id: "toolu_1".into(), name: "sum".into(), arguments: "{\"a\": 2}".into() };
        let choice = ResponseChoice {
            thinking: "hm".into(),
            text: "I add.".into(),
            calls: vec![call],
            finish: ApiFinishReason::Calls,
            ..ResponseChoice::default()
        };
        ModelResponse {
            choices: vec![choice],
            usage: Usage { prompt: 3, sampled: 4, thinking: 1 },
            ..ModelResponse::default()
        }
    }
    fn identity() -> ResponseIdentity {
        ResponseIdentity { id: "msg_1".into(), created: 5 }
    }

    #[test]
    fn thinking_text_and_calls_are_blocks() {
        let body = write(&request(), &response(), &identity());
        let kinds: Vec<&str> =
            body["content"].as_array().unwrap().iter().map(|b| b["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "text", "tool_use"]);
        assert_eq!(body["content"][2]["input"], json!({"a": 2}));
        assert_eq!((&body["stop_reason"], &body["usage"]["output_tokens"]), (&json!("tool_use"), &json!(4)));
        assert_eq!(stop(&ApiFinishReason::Text("END".into())), (json!("stop_sequence"), json!("END")));
        assert_eq!(stop(&ApiFinishReason::Length).0, "max_tokens");
    }

    #[test]
    fn events_build_blocks_of_response() {
        let mut stream = MessagesStreamWriter::new(&request(), &identity());
        let mut events = stream.begin();
        let piece = |thinking: &str, text: &str| ChoiceDelta {
            thinking: thinking.into(),
            text: text.into(),
            ..ChoiceDelta::default()
        };
        for piece in [piece("h", ""), piece("m", "I "), piece("", "add.")] {
            events.extend(stream.write_delta(&piece));
        }
        events.extend(
            stream.write_delta(&ChoiceDelta { calls: response().choices[0].calls.clone(), ..ChoiceDelta::default() }),
        );
        events.extend(stream.end(&response()));
        let names: Vec<&str> = events.iter().filter_map(|event| event.name).collect();
        let (start, delta, stop) = ("content_block_start", "content_block_delta", "content_block_stop");
        let expected = [
            &["message_start", start, delta, delta, delta, stop][..],
            &[start, delta, delta, stop],
            &[start, delta, stop, "message_delta", "message_stop"],
        ];
        assert_eq!(names, expected.concat());
        let indices: Vec<u64> = events.iter().filter_map(|e| e.data.as_ref()?["index"].as_u64()).collect();
        assert_eq!(indices, [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]);
        assert_eq!(events[11].data.as_ref().unwrap()["delta"]["partial_json"], "{\"a\":2}");
        assert!(events[0].text().starts_with("event: message_start\ndata: {"), "{}", events[0].text());
    }
}
