//! Classifies failures of a request by whether a retry may succeed.

use reqwest::StatusCode;
use serde_json::Value;
use std::time::Duration;
use trainyard_core::Error;

/// Maximum characters of a service's message in an error.
const MAX_MESSAGE_CHARS: usize = 300;

/// Progress of a request that has no usable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// The request was not processed: the connection failed, or the service reported too many requests.
    NotProcessed,
    /// The response timed out.
    TimedOut,
    /// The request may have been processed.
    MaybeProcessed,
}

/// Failure of a request without a usable response.
#[derive(Debug, Clone)]
pub struct HttpFault {
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Progress of the request.
    pub delivery: DeliveryStatus,
    /// Description of the failure.
    pub error: Error,
}

impl From<HttpFault> for Error {
    fn from(fault: HttpFault) -> Self {
        fault.error
    }
}

/// Failure of one attempt, and whether to retry.
pub(crate) enum AttemptFault {
    /// The same request may succeed later, at the earliest after this time.
    Retryable(HttpFault, Option<Duration>),
    /// A retry would fail again.
    Final(HttpFault),
}

impl AttemptFault {
    pub fn retryable(error: Error) -> Self {
        Self::undelivered(DeliveryStatus::MaybeProcessed, error)
    }
    /// Creates the fault of a request without a response, which may be retried.
    pub fn undelivered(delivery: DeliveryStatus, error: Error) -> Self {
        Self::Retryable(HttpFault { status: None, delivery, error }, None)
    }
    pub fn permanent(error: Error) -> Self {
        Self::Final(HttpFault { status: None, delivery: DeliveryStatus::MaybeProcessed, error })
    }
    /// Creates the fault of a response with an error status. `wait` is the delay that the service requests before the
    /// next attempt.
    pub fn from_status(place: &str, status: StatusCode, body: &str, wait: Option<Duration>) -> Self {
        let detail = error_message(body);
        let suffix = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        let message = format!("{place} returned status {}{suffix}", status.as_u16());
        let delivery = if status == StatusCode::TOO_MANY_REQUESTS {
            DeliveryStatus::NotProcessed
        } else {
            DeliveryStatus::MaybeProcessed
        };
        let fault = |error| HttpFault { status: Some(status.as_u16()), delivery, error };
        match status.as_u16() {
            408 | 425 | 429 | 500 | 502..=504 | 507.. => {
                Self::Retryable(fault(Error::retryable(message).help("see the log of the server")), wait)
            }
            401 | 403 => Self::Final(fault(
                Error::invalid(message).help("set a valid key: `api_key: {secret: NAME}` in the options"),
            )),
            300..=399 => Self::Final(fault(
                Error::invalid(format!("{place} redirects the request (status {})", status.as_u16()))
                    .help("set the URL to the target of the redirect: redirects are not followed"),
            )),
            404 | 405 | 501 => {
                Self::Final(fault(Error::invalid(message).help("check the URL, and that the server offers this API")))
            }
            _ => Self::Final(fault(Error::invalid(message).help("see the log of the server"))),
        }
    }
}

/// Returns the message of an error body: the message field of a JSON body in a usual form, else the text, shortened and
/// on one line.
fn error_message(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        ["/error/message", "/message", "/detail", "/error"].iter().find_map(|at| value.pointer(at)?.as_str())
    });
    let text: String = message.unwrap_or(body).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
