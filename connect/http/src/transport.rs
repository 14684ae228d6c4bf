//! Sends requests to one service, with credentials, limits and retries.

use crate::base_url::BaseUrl;
use crate::fault::{AttemptFault, DeliveryStatus, HttpFault};
use crate::retry;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Semaphore;
use trainyard_core::{Chance, Error, Result, Secret};

/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of an error response.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Limits of the requests to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum requests in flight.
    pub requests: usize,
    /// Attempts of one request, including the first.
    pub attempts: u32,
    /// Timeout of one attempt, from sending it to the last byte of its response.
    pub timeout: Duration,
    /// Maximum bytes of a response.
    pub response_bytes: usize,
}

/// One request: `GET` without a body, `POST` with one.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonRequest {
    /// Path below the address, beginning with a slash.
    pub path: &'static str,
    /// JSON to send.
    pub body: Option<Value>,
}

impl JsonRequest {
    /// Creates a GET request for a path.
    pub fn get(path: &'static str) -> Self {
        Self { path, body: None }
    }
    /// Creates a POST request with JSON.
    pub fn post(path: &'static str, body: Value) -> Self {
        Self { path, body: Some(body) }
    }
}

/// Whether a response is complete, given its content type, the bytes so far and the body of the request.
pub type CompleteFn = fn(&str, &[u8], &str) -> bool;

/// A request to the address itself, whose response is text.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub body: String,
    /// Whether the method is `DELETE` without a body.
    pub is_delete: bool,
    /// Headers in addition to those of every request.
    pub headers: Vec<(&'static str, String)>,
    /// Accepted content types.
    pub accept: &'static str,
    /// Response header to return.
    pub response_header: Option<&'static str>,
    /// Whether the request may be repeated after it may have been processed. Otherwise it is repeated only if it was
    /// not.
    pub idempotent: bool,
    /// Whether the response is one JSON value: an incomplete one is a connection failure.
    pub is_json: bool,
    /// Detects when to stop reading a stream that stays open; `None` reads to its end.
    pub is_complete: Option<CompleteFn>,
}

impl HttpRequest {
    /// Creates an idempotent request with a JSON body, which accepts a JSON response.
    pub fn json(body: String) -> Self {
        let (headers, accept) = (Vec::new(), "application/json");
        Self {
            body,
            is_delete: false,
            headers,
            accept,
            response_header: None,
            idempotent: true,
            is_json: false,
            is_complete: None,
        }
    }
}

/// Response to an [`HttpRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Content type; may be empty.
    pub content_type: String,
    /// Value of the requested header, if present.
    pub header: Option<String>,
    /// Body, or its part until `is_complete` holds.
    pub body: String,
}

/// Credentials for a service.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Bearer token of the header `Authorization`.
    pub key: Option<Secret>,
    /// Further headers by name.
    pub headers: Vec<(String, Secret)>,
}

impl From<Option<Secret>> for Credentials {
    fn from(key: Option<Secret>) -> Self {
        Self { key, headers: Vec::new() }
    }
}

impl Credentials {
    /// Returns the further headers. Errors: invalid; the message does not contain the value.
    fn map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let invalid = |part: &str| Error::invalid(format!("invalid {part} of the header `{name}`"));
            let header = HeaderName::try_from(name.as_str()).map_err(|_| invalid("name"))?;
            let mut value = HeaderValue::from_str(value.reveal())
                .map_err(|_| invalid("value").help("remove line breaks and control characters"))?;
            value.set_sensitive(true);
            map.append(header, value);
        }
        Ok(map)
    }
}

pub(crate) struct HttpTransport {
    http: reqwest::Client,
    address: BaseUrl,
    key: Option<Secret>,
    limits: RequestLimits,
    permits: Semaphore,
}

impl HttpTransport {
    pub fn new(address: BaseUrl, credentials: Credentials, limits: RequestLimits) -> Result<Self> {
        // The installation fails if another part of the program has installed the provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirection could send the key to another service.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(limits.timeout)
            .redirect(Policy::none());
        let http = http
            .default_headers(credentials.map()?)
            .build()
            .map_err(|e| Error::bug(format!("no client for {address}: {e}")))?;
        Ok(Self { http, address, key: credentials.key, limits, permits: Semaphore::new(limits.requests.max(1)) })
    }

    /// Sends a request and repeats it as often as the limits permit until a response arrives. A body that is not JSON
    /// is returned as a JSON string.
    pub async fn send_json(&self, request: &JsonRequest) -> Result<Value, HttpFault> {
        let body = request.body.as_ref().map(Value::to_string);
        let chance = Chance::new(0).child(&format!("{} {}", request.path, body.as_deref().unwrap_or_default()), &[]);
        let mut attempts = 0;
        loop {
            let response = {
                let _permit = self.permits.acquire().await;
                self.send_json_once(request.path, body.as_deref()).await
            };
            attempts += 1;
            let (fault, retry_after) = match response {
                Ok(value) => return Ok(value),
                Err(AttemptFault::Final(fault)) => return Err(fault),
                Err(AttemptFault::Retryable(fault, retry_after)) => (fault, retry_after),
            };
            let excessive = retry_after.filter(|retry_after| *retry_after > retry::MAX_RETRY_AFTER);
            if attempts >= self.limits.attempts || excessive.is_some() {
                return Err(final_fault(fault, attempts, excessive));
            }
            tokio::time::sleep(retry::retry_delay(attempts, retry_after, &chance)).await;
        }
    }

    async fn send_json_once(&self, path: &str, body: Option<&str>) -> Result<Value, AttemptFault> {
        let url = self.address.join(path);
        let mut request = match body {
            None => self.http.get(url),
            Some(body) => self.http.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()),
        };
        request = request.header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let response = request.send().await.map_err(|e| self.transport_fault(path, e))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.status_fault(path, status, response).await);
        }
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.contains("json")));
        let text = self.text(path, response, self.limits.response_bytes).await?;
        if !is_json {
            return Ok(Value::String(text));
        }
        serde_json::from_str(&text).map_err(|e| {
            let place = self.place(path);
            if e.is_eof() {
                return AttemptFault::retryable(
                    Error::retryable(format!("{place} ended its response early")).caused_by(&e),
                );
            }
            AttemptFault::permanent(Error::data(format!("{place} returned invalid JSON")).caused_by(&e))
        })
    }

    async fn status_fault(&self, path: &str, status: StatusCode, response: Response) -> AttemptFault {
        let retry_after = retry::retry_after(response.headers());
        let body = self.text(path, response, MAX_ERROR_BYTES).await.unwrap_or_default();
        AttemptFault::from_status(&self.place(path), status, &body, retry_after)
    }

    /// Reads the body as text. Errors: retryable, if the connection fails; final, if it is too long.
    async fn text(&self, path: &str, mut response: Response, max_bytes: usize) -> Result<String, AttemptFault> {
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| self.transport_fault(path, e))? {
            if bytes.len() + part.len() > max_bytes {
                let message = format!("{} returned more than {max_bytes} bytes", self.place(path));
                return Err(AttemptFault::permanent(
                    Error::data(message).help("check that the URL is that of the intended service"),
                ));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a request and repeats it as often as the limits permit. If it may have been processed, it is repeated only
    /// if it is idempotent.
    pub async fn send(&self, message: &HttpRequest) -> Result<HttpResponse, HttpFault> {
        let chance = Chance::new(0).child(&message.body, &[]);
        let mut attempts = 0;
        loop {
            let response = {
                let _permit = self.permits.acquire().await;
                self.send_once(message).await
            };
            attempts += 1;
            let (fault, retry_after) = match response {
                Ok(response) => return Ok(response),
                Err(AttemptFault::Final(fault)) => return Err(fault),
                Err(AttemptFault::Retryable(fault, retry_after)) => (fault, retry_after),
            };
            let excessive = retry_after.filter(|retry_after| *retry_after > retry::MAX_RETRY_AFTER);
            let may_retry = message.idempotent || fault.delivery == DeliveryStatus::NotProcessed;
            if !may_retry || attempts >= self.limits.attempts || excessive.is_some() {
                return Err(final_fault(fault, attempts, excessive));
            }
            tokio::time::sleep(retry::retry_delay(attempts, retry_after, &chance)).await;
        }
    }

    async fn send_once(&self, message: &HttpRequest) -> Result<HttpResponse, AttemptFault> {
        let url = self.address.url();
        let mut request = if message.is_delete {
            self.http.delete(url)
        } else {
            self.http.post(url).header(CONTENT_TYPE, "application/json").body(message.body.clone())
        };
        request = request.header(ACCEPT, message.accept);
        for (name, value) in &message.headers {
            request = request.header(*name, value);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let mut response = request.send().await.map_err(|e| self.transport_fault("", e))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.status_fault("", status, response).await);
        }
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
        let (kind, header_value) =
            (header("content-type").unwrap_or_default(), message.response_header.and_then(header));
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| self.transport_fault("", e))? {
            if bytes.len() + part.len() > self.limits.response_bytes {
                let message = format!("{} returned more than {} bytes", self.address, self.limits.response_bytes);
                return Err(AttemptFault::permanent(
                    Error::data(message).help("check that the URL is that of the intended service"),
                ));
            }
            bytes.extend_from_slice(&part);
            // A stream may stay open after its last event.
            if message.is_complete.is_some_and(|enough| enough(&kind, &bytes, &message.body)) {
                break;
            }
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        if message.is_json
            && let Err(e) = serde_json::from_str::<IgnoredAny>(&body)
            && e.is_eof()
        {
            let error = Error::retryable(format!("{} ended its response early", self.address)).caused_by(&e);
            return Err(AttemptFault::retryable(error));
        }
        Ok(HttpResponse { content_type: kind, header: header_value, body })
    }

    fn transport_fault(&self, path: &str, error: reqwest::Error) -> AttemptFault {
        let error = error.without_url();
        let (delivery, message) = if error.is_timeout() && !error.is_connect() {
            (DeliveryStatus::TimedOut, format!("{} did not answer within {:?}", self.place(path), self.limits.timeout))
        } else if error.is_connect() {
            (DeliveryStatus::NotProcessed, format!("{} cannot be reached", self.address))
        } else {
            (DeliveryStatus::MaybeProcessed, format!("{} closed the connection early", self.place(path)))
        };
        let help = "check the URL, and that the server runs; a slow server needs a longer `timeout`";
        AttemptFault::undelivered(delivery, Error::retryable(message).help(help).caused_by(&error))
    }

    fn place(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

/// Returns the fault that ends the attempts.
fn final_fault(mut fault: HttpFault, attempts: u32, retry_after: Option<Duration>) -> HttpFault {
    if let Some(retry_after) = retry_after {
        fault.error.message = format!("{} (requested delay: {} s)", fault.error.message, retry_after.as_secs());
    } else if attempts > 1 {
        fault.error.message = format!("{} ({attempts} attempts)", fault.error.message);
    }
    fault
}
