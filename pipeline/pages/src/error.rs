//! Errors of pages. The layer in `server` renders them, since only it knows the addresses of links.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use trainyard_core::{Error, ErrorKind};

/// Error of a page, with advice.
#[derive(Debug, Clone)]
pub struct PageError {
    /// Status of the response.
    pub status: StatusCode,
    /// Reason of the error.
    pub message: String,
    /// Advice for the reader.
    pub help: Option<String>,
}

/// Result of a page.
pub type PageResult = Result<crate::layout::Document, PageError>;

impl PageError {
    /// Returns an error with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), help: None }
    }
    /// Returns the error of something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Invalid => StatusCode::NOT_FOUND,
            ErrorKind::Retryable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, message: error.message.clone(), help: error.help.clone() }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
