//! Defines refusals of requests, and writes them in the error format of each API.

use crate::request::ApiKind;
use serde_json::{Value, json};
use trainyard_core::{Error, ErrorKind};
use trainyard_tables::TurnFormError;

/// Refusal or failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelApiError {
    /// HTTP status, such as 400 for a mistake in the request, 401 for a missing or invalid key, 404 for an unknown
    /// model or path, 413 for a body that is too large, 429 for too many requests, 500 for a fault of the server, and
    /// 503 for a server that is busy or stopping.
    pub status: u16,
    /// Machine-readable code, such as `context_length_exceeded`.
    pub code: Option<&'static str>,
    /// Invalid field, such as `messages[2].content`.
    pub param: Option<String>,
    /// Description of the fault and its remedy.
    pub message: String,
}

impl ModelApiError {
    /// Creates a refusal with a status and a message.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, code: None, param: None, message: message.into() }
    }
    /// Creates the refusal of an invalid field.
    pub fn invalid_field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(400, message) }
    }
    /// Adds a machine-readable code.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
    /// Creates the refusal of a model that is not served; `known` lists the served models.
    pub fn model_not_found(name: &str, known: &[String]) -> Self {
        let message = format!("the model `{name}` is not served here; use one of: {}", known.join(", "));
        Self { param: Some("model".into()), ..Self::new(404, message).code("model_not_found") }
    }
    /// Creates the refusal of a request with more tokens than the model has positions.
    pub fn too_long(prompt: usize, requested: usize, positions: usize) -> Self {
        let message = format!(
            "the prompt has {prompt} tokens and {requested} more are requested, but this model's maximum context \
             length is {positions} tokens; shorten the messages or lower the limit of tokens"
        );
        Self::new(400, message).code("context_length_exceeded")
    }
    /// Returns the error body in the format of `api`.
    pub fn body(&self, api: ApiKind) -> Value {
        match api {
            ApiKind::Messages => {
                json!({"type": "error", "error": {"type": self.anthropic(), "message": self.message}})
            }
            ApiKind::Chat | ApiKind::Completions | ApiKind::Responses => json!({"error": {
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

impl From<Error> for ModelApiError {
    /// Converts invalid input and data to status 400, cancelled and temporary errors to 503, and bugs to 500.
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Invalid | ErrorKind::Data => 400,
            ErrorKind::Cancelled | ErrorKind::Retryable | ErrorKind::Lost => 503,
            ErrorKind::Bug => 500,
        };
        Self::new(status, error.to_string())
    }
}

impl From<TurnFormError> for ModelApiError {
    /// Converts a form that a turn cannot have to the refusal of its field.
    fn from(error: TurnFormError) -> Self {
        Self { param: Some(error.field), ..Self::from(error.error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_body_has_format_of_api() {
        let refusal = ModelApiError::invalid_field("temperature", "`temperature` is -1").code("out_of_range");
        assert_eq!(
            refusal.body(ApiKind::Chat),
            json!({"error": {"message": "`temperature` is -1", "type": "invalid_request_error",
                "param": "temperature", "code": "out_of_range"}})
        );
        assert_eq!(
            refusal.body(ApiKind::Messages),
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` is -1"}})
        );
        assert_eq!(ModelApiError::new(503, "").body(ApiKind::Messages)["error"]["type"], "overloaded_error");
        assert_eq!(ModelApiError::new(401, "").body(ApiKind::Responses)["error"]["type"], "authentication_error");
    }

    #[test]
    fn error_message_includes_help() {
        let refusal = ModelApiError::from(Error::invalid("no position is left").help("shorten it"));
        assert_eq!((refusal.status, refusal.message.as_str()), (400, "no position is left; shorten it"));
        assert_eq!(ModelApiError::from(Error::bug("x")).status, 500);
    }
}
