//! Why a request gets no answer, in the error shape of its API.

use crate::asked::Form;
use serde_json::{Value, json};
use trainyard_core::{Error, ErrorKind};

/// A request that is refused, or that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status: 400 a mistake in the request, 401 no valid key, 404 no such model or path, 413 too large, 429 too
    /// many requests, 500 a fault here, 503 the server stops.
    pub status: u16,
    /// A word for programs, such as `context_length_exceeded`.
    pub code: Option<&'static str>,
    /// The field that is wrong, such as `messages[2].content`.
    pub param: Option<String>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal with a status and a message.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, code: None, param: None, message: message.into() }
    }
    /// A field of the request that is wrong.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(400, message) }
    }
    /// The same with a word for programs.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
    /// A model that is not served; `known` are those that are.
    pub fn no_model(name: &str, known: &[String]) -> Self {
        let message = format!("the model `{name}` is not served here; use one of: {}", known.join(", "));
        Self { param: Some("model".into()), ..Self::new(404, message).code("model_not_found") }
    }
    /// More tokens than the model has positions.
    pub fn too_long(prompt: usize, wanted: usize, positions: usize) -> Self {
        let message = format!(
            "the prompt has {prompt} tokens and {wanted} more were asked for, but this model's maximum context length \
             is {positions} tokens; shorten the messages or lower the limit of tokens"
        );
        Self::new(400, message).code("context_length_exceeded")
    }
    /// The body that an API sends with it.
    pub fn body(&self, form: Form) -> Value {
        match form {
            Form::Messages => {
                json!({"type": "error", "error": {"type": self.anthropic(), "message": self.message}})
            }
            Form::Chat | Form::Completions | Form::Responses => json!({"error": {
                "message": self.message, "type": self.openai(), "param": self.param, "code": self.code,
            }}),
        }
    }
    fn openai(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }
    fn anthropic(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }
}

impl From<Error> for Refusal {
    /// What the request is to blame for is a 400; everything else a fault of the server.
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Invalid | ErrorKind::Data => 400,
            ErrorKind::Cancelled | ErrorKind::Retryable | ErrorKind::Lost => 503,
            ErrorKind::Bug => 500,
        };
        Self::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_gets_its_own_shape() {
        let refusal = Refusal::field("temperature", "`temperature` is -1").code("out_of_range");
        assert_eq!(
            refusal.body(Form::Chat),
            json!({"error": {"message": "`temperature` is -1", "type": "invalid_request_error",
                "param": "temperature", "code": "out_of_range"}})
        );
        assert_eq!(
            refusal.body(Form::Messages),
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` is -1"}})
        );
        assert_eq!(Refusal::new(503, "").body(Form::Messages)["error"]["type"], "overloaded_error");
        assert_eq!(Refusal::new(401, "").body(Form::Responses)["error"]["type"], "authentication_error");
    }

    #[test]
    fn errors_keep_their_help() {
        let refusal = Refusal::from(Error::invalid("no position is left").help("shorten it"));
        assert_eq!((refusal.status, refusal.message.as_str()), (400, "no position is left; shorten it"));
        assert_eq!(Refusal::from(Error::bug("x")).status, 500);
    }
}
