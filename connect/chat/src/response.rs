//! Validates a server's response and defines its parts: text, tool calls, log-probabilities.

use serde_json::{Value, json};
use trainyard_core::{Error, Result};

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatToolCall {
    /// Id, to which the tool's result refers.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the model wrote them; usually JSON of an object.
    pub arguments: String,
}

impl ChatToolCall {
    pub(crate) fn body(&self) -> Value {
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": self.id, "type": "function", "function": function})
    }
    fn read(value: &Value) -> Option<Self> {
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_string);
        let arguments = match value.pointer("/function/arguments")? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(Self { id: text("/id").unwrap_or_default(), name: text("/function/name")?, arguments })
    }
}

/// Reason of a response's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatFinishReason {
    /// The model ended the response, or called tools.
    Stop,
    /// The limit of tokens was reached.
    Length,
    /// The server withheld the response.
    Filtered,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatResponse {
    /// Text; may be empty.
    pub text: String,
    /// Tool calls, in order.
    pub calls: Vec<ChatToolCall>,
    /// Text with which the model declined, where the server marks it.
    pub refusal: Option<String>,
    /// Reason of the end.
    pub finish: ChatFinishReason,
    /// Name of the model that the server reports, if any.
    pub model: Option<String>,
    /// Tokens of the prompt and of the response, where the server counts them.
    pub tokens: Option<(u64, u64)>,
    /// Natural logarithms of the probabilities of the response's tokens, where they were requested and returned.
    pub logprobs: Option<Vec<f64>>,
}

impl ChatResponse {
    /// Reads a chat completion. Errors: data, for any other content.
    pub(crate) fn read(body: &Value) -> Result<Self> {
        let Some(choice) = body.pointer("/choices/0").filter(|choice| choice["message"].is_object()) else {
            return Err(Error::data(format!("the server returned no chat completion but {}", short(body)))
                .help("check that `endpoint` is a server with `/v1/chat/completions`"));
        };
        let message = &choice["message"];
        let mut calls = Vec::new();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let unreadable = || Error::data(format!("the server returned an unreadable tool call: {}", short(call)));
            calls.push(ChatToolCall::read(call).ok_or_else(unreadable)?);
        }
        let finish = match choice["finish_reason"].as_str() {
            Some("length") => ChatFinishReason::Length,
            Some("content_filter") => ChatFinishReason::Filtered,
            _ => ChatFinishReason::Stop,
        };
        let count = |name: &str| body["usage"][name].as_u64();
        let logprob = |token: &Value| token["logprob"].as_f64();
        let logprobs = choice.pointer("/logprobs/content").and_then(Value::as_array);
        Ok(Self {
            text: message["content"].as_str().unwrap_or_default().to_string(),
            calls,
            refusal: message["refusal"].as_str().filter(|words| !words.is_empty()).map(str::to_string),
            finish,
            model: body["model"].as_str().map(str::to_string),
            tokens: count("prompt_tokens").zip(count("completion_tokens")),
            logprobs: logprobs.and_then(|tokens| tokens.iter().map(logprob).collect()),
        })
    }
    /// Returns the JSON object of a response with a requested form. It is the first JSON object that begins at some
    /// brace of the text.
    ///
    /// Errors: data, if the model refused, was cut off, or wrote no object.
    pub fn object(&self) -> Result<Value> {
        if let Some(refusal) = &self.refusal {
            return Err(Error::data(format!("the model refused: {}", cut(refusal))));
        }
        let found = first_object(&self.text);
        found.ok_or_else(|| match self.finish {
            ChatFinishReason::Length => {
                Error::data("the response was cut off at the token limit").help("raise `max_tokens`")
            }
            ChatFinishReason::Filtered => Error::data("the server withheld the response (content filter)"),
            ChatFinishReason::Stop => {
                Error::data(format!("the response contains no JSON object: `{}`", cut(&self.text)))
            }
        })
    }
}

/// Returns the first JSON object that begins at some brace of a text.
fn first_object(text: &str) -> Option<Value> {
    let braces = text.match_indices('{').map(|(at, _)| &text[at..]);
    let mut objects = braces.filter_map(|rest| {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        stream.next()?.ok().filter(Value::is_object)
    });
    objects.next()
}

fn short(value: &Value) -> String {
    format!("`{}`", cut(&value.to_string()))
}

/// Returns at most 200 characters on one line.
fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(message: Value, finish: &str) -> ChatResponse {
        ChatResponse::read(&json!({"choices": [{"message": message, "finish_reason": finish}]})).unwrap()
    }

    #[test]
    fn response_is_read_with_optional_fields() {
        let body = json!({
            "model": "m-2", "usage": {"prompt_tokens": 5, "completion_tokens": 2},
            "choices": [{"finish_reason": "tool_calls", "logprobs": {"content": [{"logprob": -0.5}]}, "message": {
                "content": null, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
            }}],
        });
        let read = ChatResponse::read(&body).unwrap();
        assert_eq!((read.text.as_str(), read.finish, read.tokens), ("", ChatFinishReason::Stop, Some((5, 2))));
        assert_eq!(read.calls[0], ChatToolCall { id: "a".into(), name: "f".into(), arguments: "{\"x\":1}".into() });
        assert_eq!((read.model.as_deref(), read.logprobs), (Some("m-2"), Some(vec![-0.5])));
    }

    #[test]
    fn invalid_chat_completion_is_reported() {
        for body in [json!("<html>"), json!({"error": {"message": "no"}}), json!({"choices": []}), json!([1])] {
            let error = ChatResponse::read(&body).unwrap_err();
            assert!(error.message.contains("no chat completion"), "{error}");
        }
        let call = json!({"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]});
        assert!(ChatResponse::read(&call).unwrap_err().message.contains("unreadable tool call"));
    }

    #[test]
    fn object_is_found_or_absence_is_explained() {
        let text = |text: &str| response(json!({"content": text}), "stop").object().map_err(|e| e.message);
        assert_eq!(text("{\"keep\": true}"), Ok(json!({"keep": true})));
        assert_eq!(text("So {x}: ```json\n{\"a\": {\"b\": 1}}\n```"), Ok(json!({"a": {"b": 1}})));
        assert!(text("yes").unwrap_err().contains("`yes`"));
        assert!(response(json!({"content": "{\"a"}), "length").object().unwrap_err().message.contains("cut off"));
        let declined = response(json!({"content": null, "refusal": "I will not."}), "stop").object().unwrap_err();
        assert!(declined.message.contains("I will not."), "{declined}");
        assert!(response(json!({"content": ""}), "content_filter").object().unwrap_err().message.contains("withheld"));
    }
}
