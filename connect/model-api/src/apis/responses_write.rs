//! Writes responses of OpenAI's responses API, as items or as the events that build the items.

use super::stream::{ResponseIdentity, ServerSentEvent, StreamWriter};
use super::tokens;
use crate::error::ModelApiError;
use crate::request::ModelRequest;
use crate::response::{ApiFinishReason, ApiToolCall, ChoiceDelta, ModelResponse, ResponseChoice, SampledToken};
use serde_json::{Value, json};

/// Writes the complete response.
pub fn write(request: &ModelRequest, response: &ModelResponse, identity: &ResponseIdentity) -> Value {
    let empty = ResponseChoice::default();
    let choice = response.choices.first().unwrap_or(&empty);
    let cut = choice.finish == ApiFinishReason::Length;
    let mut items = Vec::new();
    if !choice.thinking.is_empty() {
        items.push(reasoning(&id("rs", identity, items.len()), &choice.thinking, "completed"));
    }
    if !choice.text.is_empty() || choice.calls.is_empty() {
        let status = if cut { "incomplete" } else { "completed" };
        items.push(message(
            &id("msg", identity, items.len()),
            status,
            json!([part(request, &choice.text, &choice.tokens)]),
        ));
    }
    for call in &choice.calls {
        items.push(call_item(&id("fc", identity, items.len()), call, "completed"));
    }
    let mut body = response_body(request, identity, if cut { "incomplete" } else { "completed" });
    body["output"] = json!(items);
    if cut {
        body["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    let usage = &response.usage;
    body["usage"] = json!({
        "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.sampled, "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": usage.prompt + usage.sampled,
    });
    if request.token_ids {
        body["prompt_token_ids"] = json!(response.prompt_ids);
        body["token_ids"] = json!(tokens::ids(&choice.tokens));
    }
    body
}

fn response_body(request: &ModelRequest, identity: &ResponseIdentity, status: &str) -> Value {
    let mut body = json!({
        "id": identity.id, "object": "response", "created_at": identity.created, "status": status,
        "model": request.model, "error": null, "incomplete_details": null, "instructions": null, "output": [],
        "metadata": {}, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "temperature": null,
        "top_p": null, "max_output_tokens": null, "previous_response_id": null, "truncation": "disabled", "usage": null,
        "text": {"format": {"type": "text"}}, "store": request.store, "background": false,
    });
    for (key, value) in &request.echo {
        body[key] = value.clone();
    }
    body
}

fn id(prefix: &str, identity: &ResponseIdentity, index: usize) -> String {
    format!("{prefix}_{}_{index}", identity.id.trim_start_matches("resp_"))
}

fn reasoning(id: &str, text: &str, status: &str) -> Value {
    json!({
        "id": id, "type": "reasoning", "status": status, "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
    })
}

fn message(id: &str, status: &str, content: Value) -> Value {
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

fn part(request: &ModelRequest, text: &str, list: &[SampledToken]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs(request, list)})
}

fn logprobs(request: &ModelRequest, list: &[SampledToken]) -> Vec<Value> {
    let list = if request.logprobs.is_some() { list } else { &[] };
    list.iter().map(|token| tokens::listed(request, token)).collect()
}

fn call_item(id: &str, call: &ApiToolCall, status: &str) -> Value {
    json!({
        "id": id, "type": "function_call", "status": status, "call_id": call.id, "name": call.name,
        "arguments": call.arguments,
    })
}

/// An item under construction.
enum OpenItem {
    Thinking(String),
    Text(String),
}

/// Writer of a response as events.
pub struct ResponsesStreamWriter {
    request: ModelRequest,
    identity: ResponseIdentity,
    number: u64,
    /// Number of finished items.
    items: usize,
    open: Option<OpenItem>,
    has_text: bool,
    /// Tokens of the message under construction.
    tokens: Vec<SampledToken>,
}

impl ResponsesStreamWriter {
    pub fn new(request: &ModelRequest, identity: &ResponseIdentity) -> Self {
        let (request, identity) = (request.clone(), identity.clone());
        Self { request, identity, number: 0, items: 0, open: None, has_text: false, tokens: Vec::new() }
    }
    fn event(&mut self, name: &'static str, mut data: Value) -> ServerSentEvent {
        data["sequence_number"] = json!(self.number);
        self.number += 1;
        ServerSentEvent::named(name, data)
    }
    fn id(&self, prefix: &str) -> String {
        id(prefix, &self.identity, self.items)
    }
    /// Appends to the open thought, and begins a thought if none is open.
    fn write_thinking(&mut self, text: &str, events: &mut Vec<ServerSentEvent>) {
        if !matches!(self.open, Some(OpenItem::Thinking(_))) {
            self.close(events, "completed");
            let mut item = reasoning(&self.id("rs"), "", "in_progress");
            item["content"] = json!([]);
            let index = self.items;
            events.push(self.event("response.output_item.added", json!({"output_index": index, "item": item})));
            self.open = Some(OpenItem::Thinking(String::new()));
        }
        if let Some(OpenItem::Thinking(all)) = &mut self.open {
            all.push_str(text);
        }
        let data = self.place("rs", json!({"delta": text}));
        events.push(self.event("response.reasoning_text.delta", data));
    }
    /// Appends to the open message, and begins a message if none is open.
    fn write_text(&mut self, text: &str, list: &[SampledToken], events: &mut Vec<ServerSentEvent>) {
        if !matches!(self.open, Some(OpenItem::Text(_))) {
            self.close(events, "completed");
            let item = message(&self.id("msg"), "in_progress", json!([]));
            let index = self.items;
            events.push(self.event("response.output_item.added", json!({"output_index": index, "item": item})));
            let data = self.place("msg", json!({"part": part(&self.request, "", &[])}));
            events.push(self.event("response.content_part.added", data));
            self.open = Some(OpenItem::Text(String::new()));
            self.has_text = true;
        }
        if let Some(OpenItem::Text(all)) = &mut self.open {
            all.push_str(text);
        }
        self.tokens.extend_from_slice(list);
        if !text.is_empty() {
            let data = self.place("msg", json!({"delta": text, "logprobs": logprobs(&self.request, list)}));
            events.push(self.event("response.output_text.delta", data));
        }
    }
    fn place(&self, prefix: &str, mut data: Value) -> Value {
        data["item_id"] = json!(self.id(prefix));
        data["output_index"] = json!(self.items);
        data["content_index"] = json!(0);
        data
    }
    /// Ends the open item, if any.
    fn close(&mut self, events: &mut Vec<ServerSentEvent>, status: &str) {
        let item = match self.open.take() {
            None => return,
            Some(OpenItem::Thinking(text)) => {
                let data = self.place("rs", json!({"text": text}));
                events.push(self.event("response.reasoning_text.done", data));
                reasoning(&self.id("rs"), &text, status)
            }
            Some(OpenItem::Text(text)) => {
                let list = std::mem::take(&mut self.tokens);
                let part = part(&self.request, &text, &list);
                let data = self.place("msg", json!({"text": text, "logprobs": part["logprobs"]}));
                events.push(self.event("response.output_text.done", data));
                let data = self.place("msg", json!({"part": part}));
                events.push(self.event("response.content_part.done", data));
                message(&self.id("msg"), status, json!([part]))
            }
        };
        let index = self.items;
        events.push(self.event("response.output_item.done", json!({"output_index": index, "item": item})));
        self.items += 1;
    }
    fn call(&mut self, call: &ApiToolCall, events: &mut Vec<ServerSentEvent>) {
        self.close(events, "completed");
        let (id, index) = (self.id("fc"), self.items);
        let empty = ApiToolCall { arguments: String::new(), ..call.clone() };
        let added = json!({"output_index": index, "item": call_item(&id, &empty, "in_progress")});
        events.push(self.event("response.output_item.added", added));
        let delta = json!({"item_id": id, "output_index": index, "delta": call.arguments});
        events.push(self.event("response.function_call_arguments.delta", delta));
        let done = json!({"item_id": id, "output_index": index, "name": call.name, "arguments": call.arguments});
        events.push(self.event("response.function_call_arguments.done", done));
        let item = json!({"output_index": index, "item": call_item(&id, call, "completed")});
        events.push(self.event("response.output_item.done", item));
        self.items += 1;
    }
}

impl StreamWriter for ResponsesStreamWriter {
    fn begin(&mut self) -> Vec<ServerSentEvent> {
        let body = response_body(&self.request, &self.identity, "in_progress");
        ["response.created", "response.in_progress"]
            .into_iter()
            .map(|name| self.event(name, json!({"response": body})))
            .collect()
    }
    fn write_delta(&mut self, piece: &ChoiceDelta) -> Vec<ServerSentEvent> {
        let mut events = Vec::new();
        if !piece.thinking.is_empty() {
            self.write_thinking(&piece.thinking, &mut events);
        }
        if !piece.text.is_empty() {
            self.write_text(&piece.text, &piece.tokens, &mut events);
        }
        for call in &piece.calls {
            self.call(call, &mut events);
        }
        events
    }
    fn end(&mut self, response: &ModelResponse) -> Vec<ServerSentEvent> {
        let mut events = Vec::new();
        let cut = response.choices.first().is_some_and(|choice| choice.finish == ApiFinishReason::Length);
        let called = response.choices.first().is_some_and(|choice| !choice.calls.is_empty());
        if !self.has_text && !called {
            self.write_text("", &[], &mut events);
        }
        self.close(&mut events, if cut { "incomplete" } else { "completed" });
        let body = write(&self.request, response, &self.identity);
        let name = if cut { "response.incomplete" } else { "response.completed" };
        events.push(self.event(name, json!({"response": body})));
        events
    }
    fn fail(&mut self, refusal: &ModelApiError) -> Vec<ServerSentEvent> {
        let mut body = response_body(&self.request, &self.identity, "failed");
        body["error"] = json!({"code": refusal.code.unwrap_or("server_error"), "message": refusal.message});
        vec![self.event("response.failed", json!({"response": body}))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ApiKind, ModelPrompt};
    use crate::response::Usage;

    fn request() -> ModelRequest {
        let mut request = ModelRequest::new(ApiKind::Responses, "m", ModelPrompt::Messages(Vec::new()));
        request.echo.insert("instructions".into(), json!("Be brief."));
        request
    }
    fn identity() -> ResponseIdentity {
        ResponseIdentity { id: "resp_x".into(), created: 5 }
    }
    fn response(finish: ApiFinishReason) -> ModelResponse {
        let call = ApiToolCall { id: "a".into(), name: "sum".into(), arguments: "{}".into() };
        let calls = if finish == ApiFinishReason::Calls { vec![call] } else { Vec::new() };
        let choice =
            ResponseChoice { thinking: "hm".into(), text: "I add.".into(), calls, finish, ..ResponseChoice::default() };
        ModelResponse {
            choices: vec![choice],
            usage: Usage { prompt: 3, sampled: 4, thinking: 1 },
            ..ModelResponse::default()
        }
    }

    #[test]
    fn events_build_items_of_response() {
        let response = response(ApiFinishReason::Calls);
        let mut stream = ResponsesStreamWriter::new(&request(), &identity());
        let mut events = stream.begin();
        let text = |thinking: &str, text: &str| ChoiceDelta {
            thinking: thinking.into(),
            text: text.into(),
            ..ChoiceDelta::default()
        };
        for piece in [text("h", ""), text("m", "I "), text("", "add.")] {
            events.extend(stream.write_delta(&piece));
        }
        events.extend(
            stream.write_delta(&ChoiceDelta { calls: response.choices[0].calls.clone(), ..ChoiceDelta::default() }),
        );
        events.extend(stream.end(&response));
        let names: Vec<&str> = events.iter().filter_map(|event| event.name).collect();
        let text = ["response.output_text.delta"; 2];
        let expected = [
            &["response.created", "response.in_progress", "response.output_item.added"][..],
            &["response.reasoning_text.delta", "response.reasoning_text.delta", "response.reasoning_text.done"],
            &["response.output_item.done", "response.output_item.added", "response.content_part.added"],
            &text,
            &["response.output_text.done", "response.content_part.done", "response.output_item.done"],
            &["response.output_item.added", "response.function_call_arguments.delta"],
            &["response.function_call_arguments.done", "response.output_item.done", "response.completed"],
        ];
        assert_eq!(names, expected.concat());
        let data: Vec<&Value> = events.iter().filter_map(|event| event.data.as_ref()).collect();
        assert!(data.iter().enumerate().all(|(i, data)| data["sequence_number"] == json!(i)));
        let done = data.iter().filter(|data| data["type"] == "response.output_item.done");
        let built: Vec<Value> = done.map(|data| data["item"].clone()).collect();
        let whole = &data[data.len() - 1]["response"];
        assert_eq!(json!(built), whole["output"], "the events build the items of the response");
        assert_eq!((&whole["instructions"], &whole["usage"]["total_tokens"]), (&json!("Be brief."), &json!(7)));
    }

    #[test]
    fn truncated_turn_is_incomplete() {
        let body = write(&request(), &response(ApiFinishReason::Length), &identity());
        assert_eq!((&body["status"], &body["output"][1]["status"]), (&json!("incomplete"), &json!("incomplete")));
        assert_eq!(body["incomplete_details"]["reason"], "max_output_tokens");
        let empty = write(&request(), &ModelResponse::default(), &identity());
        assert_eq!(empty["output"][0]["content"][0]["text"], "", "an empty turn is an empty message");
        let failed = ResponsesStreamWriter::new(&request(), &identity()).fail(&ModelApiError::new(500, "broken"));
        assert_eq!(failed[0].data.as_ref().unwrap()["response"]["error"]["message"], "broken");
    }
}
