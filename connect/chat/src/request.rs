//! Defines requests to a model: a conversation, tools, and the form of the response.

use crate::options::{ChatOptions, Structure};
use crate::response::ChatToolCall;
use serde_json::{Map, Value, json};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequestMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    pub text: String,
    /// Calls of an assistant message.
    pub calls: Vec<ChatToolCall>,
    /// Id of the call to which a tool's result belongs.
    pub tool_call_id: Option<String>,
}

impl ChatRequestMessage {
    /// Creates a message with only a role and a text.
    pub fn new(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_string(), text: text.into(), ..Self::default() }
    }
    fn body(&self) -> Value {
        let mut message = json!({"role": self.role, "content": self.text});
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(ChatToolCall::body).collect();
        }
        if let Some(id) = &self.tool_call_id {
            message["tool_call_id"] = json!(id);
        }
        message
    }
}

/// Required form of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseSchema {
    /// Name: letters, digits, `_`.
    pub name: &'static str,
    /// JSON Schema of an object whose properties are all required.
    pub schema: Value,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<ChatRequestMessage>,
    /// Tools that the model may call, in OpenAI's form.
    pub tools: Vec<Value>,
    /// Form of the response; `None` = any text.
    pub response_schema: Option<ResponseSchema>,
    /// Whether log-probabilities of the response's tokens are requested.
    pub logprobs: bool,
    /// Distinguishes requests that are otherwise equal: each has a separate response and price.
    pub draw: u64,
}

impl ChatRequest {
    /// Creates a request of one user message, after a system message if `system` is not empty.
    pub fn from_prompt(system: &str, user: impl Into<String>) -> Self {
        let head = (!system.is_empty()).then(|| ChatRequestMessage::new("system", system));
        Self { messages: head.into_iter().chain([ChatRequestMessage::new("user", user)]).collect(), ..Self::default() }
    }
    /// Returns the body for the server, in which `options` set model, sampling and limits. Its keys are sorted by name,
    /// so equal requests have equal bytes.
    pub(crate) fn body(&self, options: &ChatOptions) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), json!(options.model));
        body.insert("messages".into(), self.messages.iter().map(ChatRequestMessage::body).collect());
        if let Some(max_tokens) = options.max_tokens {
            body.insert("max_tokens".into(), json!(max_tokens));
        }
        if let Some(temperature) = options.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        if let Some(seed) = options.seed {
            // All servers support integers below 2³¹.
            body.insert("seed".into(), json!((u64::from(seed) + self.draw) & 0x7fff_ffff));
        }
        if !self.tools.is_empty() {
            body.insert("tools".into(), json!(self.tools));
        }
        if self.logprobs {
            body.insert("logprobs".into(), json!(true));
        }
        match (&self.response_schema, options.structure) {
            (Some(ResponseSchema { name, schema }), Structure::JsonSchema) => {
                let named = json!({"name": name, "strict": true, "schema": schema});
                body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
            }
            (Some(_), Structure::JsonObject) => {
                body.insert("response_format".into(), json!({"type": "json_object"}));
            }
            (Some(_), Structure::Text) | (None, _) => {}
        }
        body.extend(options.extra.clone());
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_body_matches_openai_api() {
        let options = ChatOptions {
            temperature: Some(0.5),
            seed: Some(7),
            extra: [("top_p".to_string(), json!(0.9))].into(),
            ..ChatOptions::new("http://h", "m")
        };
        let call = ChatToolCall { id: "c".into(), name: "f".into(), arguments: "{\"x\":1}".into() };
        let mut request = ChatRequest::from_prompt("Be brief.", "2+2?");
        request.messages.push(ChatRequestMessage { calls: vec![call], ..ChatRequestMessage::new("assistant", "") });
        request
            .messages
            .push(ChatRequestMessage { tool_call_id: Some("c".into()), ..ChatRequestMessage::new("tool", "4") });
        request.response_schema = Some(ResponseSchema { name: "verdict", schema: json!({"type": "object"}) });
        request.draw = 2;
        assert_eq!(
            request.body(&options),
            json!({
                "model": "m", "max_tokens": 1024, "temperature": 0.5, "top_p": 0.9, "seed": 9,
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "2+2?"},
                    {"role": "assistant", "content": "", "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
                    ]},
                    {"role": "tool", "content": "4", "tool_call_id": "c"},
                ],
                "response_format": {"type": "json_schema", "json_schema": {
                    "name": "verdict", "strict": true, "schema": {"type": "object"},
                }},
            })
        );
        let plain = ChatOptions { max_tokens: None, structure: Structure::Text, ..ChatOptions::new("http://h", "m") };
        let body =
            ChatRequest { response_schema: request.response_schema, ..ChatRequest::from_prompt("", "hi") }.body(&plain);
        assert_eq!(body, json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
    }
}
