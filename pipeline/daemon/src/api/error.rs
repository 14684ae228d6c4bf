//! Converts errors to JSON responses: `{"error": {"kind", "message", "help"}}`.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, ErrorKind};
use trainyard_http_server::is_stalled;

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Error details.
    pub error: ErrorPart,
}

/// Error details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorPart {
    /// Error class: `invalid`, `not_found`, `unauthorized`, `forbidden`, `retryable`, `lost`, `cancelled`, `data` or
    /// `bug`.
    pub kind: String,
    /// Description of the error.
    pub message: String,
    /// Suggested next step.
    pub help: Option<String>,
}

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    pub body: ErrorBody,
}

pub type ApiResult<T> = Result<Json<T>, ApiError>;

impl ApiError {
    pub fn new(status: StatusCode, kind: &str, message: impl Into<String>, help: Option<String>) -> Self {
        let error = ErrorPart { kind: kind.to_string(), message: message.into(), help };
        Self { status, body: ErrorBody { error } }
    }
    pub fn not_found(message: impl Into<String>, help: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message, Some(help.to_string()))
    }
    /// Converts the error of a view: a name that means nothing is not found, with `help` instead of the help for the
    /// command line.
    pub fn missing(error: Error, help: &str) -> Self {
        if error.kind == ErrorKind::Invalid { Self::not_found(error.message, help) } else { error.into() }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Retryable | ErrorKind::Lost => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Cancelled => StatusCode::CONFLICT,
            ErrorKind::Data | ErrorKind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, &error.kind.to_string(), error.message, error.help)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        let text = rejection.body_text();
        // The reason follows the name of the failed operation.
        let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason);
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        let (message, help) = match missing {
            Some(name) => (format!("the query has no parameter `{name}`"), format!("add `?{name}=…` to the path")),
            None => (format!("the query cannot be read: {reason}"), "use the parameters of the path".to_string()),
        };
        let help = format!("{help}; GET /api/v1/openapi.json lists the parameters");
        Self::new(rejection.status(), "invalid", message, Some(help))
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        if is_stalled(&rejection) {
            let help = "send the request again with its complete body".to_string();
            let message = "the request body was not received completely";
            return Self::new(StatusCode::REQUEST_TIMEOUT, "retryable", message, Some(help));
        }
        let help = "send a JSON object with `content-type: application/json`".to_string();
        Self::new(rejection.status(), "invalid", rejection.body_text(), Some(help))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
