//! Requests to one service, with a key, limits and retries.

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

/// Whether the response so far (its content type, its bytes) is complete for the body.
pub type CompleteFn = fn(&str, &[u8], &str) -> bool;

/// A message to the address itself, whose response is text.
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
    /// Whether the message may be sent again if it may have arrived; otherwise only if it certainly did not.
    pub idempotent: bool,
    /// Whether the response is one JSON value: an incomplete one was broken off.
    pub is_json: bool,
    /// When to stop reading a stream that stays open; `None` reads to its end.
    pub is_complete: Option<CompleteFn>,
}

impl HttpRequest {
    /// Creates a JSON message that may be sent again, with a JSON response.
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

/// Response to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Content type; may be empty.
    pub content_type: String,
    /// Requested header.
    pub header: Option<String>,
    /// Response, or the sufficient part of it.
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
    /// Returns the further headers. Errors: invalid, without the value.
    fn map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |what: &str| Error::invalid(format!("{what} header `{name}`"));
            let known = HeaderName::try_from(name.as_str()).map_err(|_| wrong("there can be no"))?;
            let mut value = HeaderValue::from_str(value.reveal())
                .map_err(|_| wrong("no header can have the value of").help("leave line breaks and the like out"))?;
            value.set_sensitive(true);
            map.append(known, value);
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
        // Another part of the program may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirection could send the key elsewhere.
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

    /// Sends a request until it is answered, as often as the limits permit. Text that is not JSON is returned as a
    /// string.
    pub async fn send_json(&self, call: &JsonRequest) -> Result<Value, HttpFault> {
        let body = call.body.as_ref().map(Value::to_string);
        let chance = Chance::new(0).child(&format!("{} {}", call.path, body.as_deref().unwrap_or_default()), &[]);
        let mut tried = 0;
        loop {
            let answer = {
                let _place = self.permits.acquire().await;
                self.send_json_once(call.path, body.as_deref()).await
            };
            tried += 1;
            let (fault, asked) = match answer {
                Ok(value) => return Ok(value),
                Err(AttemptFault::Final(fault)) => return Err(fault),
                Err(AttemptFault::Retryable(fault, asked)) => (fault, asked),
            };
            let impatient = asked.filter(|asked| *asked > retry::MAX_RETRY_AFTER);
            if tried >= self.limits.attempts || impatient.is_some() {
                return Err(final_fault(fault, tried, impatient));
            }
            tokio::time::sleep(retry::retry_delay(tried, asked, &chance)).await;
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
        let answer = request.send().await.map_err(|e| self.transport_fault(path, e))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.status_fault(path, status, answer).await);
        }
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.contains("json")));
        let text = self.text(path, answer, self.limits.response_bytes).await?;
        if !is_json {
            return Ok(Value::String(text));
        }
        serde_json::from_str(&text).map_err(|e| {
            let place = self.place(path);
            if e.is_eof() {
                return AttemptFault::retryable(Error::retryable(format!("{place} cut its answer off")).caused_by(&e));
            }
            AttemptFault::permanent(Error::data(format!("{place} answers what is no JSON")).caused_by(&e))
        })
    }

    async fn status_fault(&self, path: &str, status: StatusCode, answer: Response) -> AttemptFault {
        let asked = retry::retry_after(answer.headers());
        let body = self.text(path, answer, MAX_ERROR_BYTES).await.unwrap_or_default();
        AttemptFault::from_status(&self.place(path), status, &body, asked)
    }

    /// Reads the body as text. Errors: passing, if it breaks off; final, if it is too long.
    async fn text(&self, path: &str, mut answer: Response, most: usize) -> Result<String, AttemptFault> {
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.transport_fault(path, e))? {
            if bytes.len() + part.len() > most {
                let message = format!("{} answers with more than {most} bytes", self.place(path));
                return Err(AttemptFault::permanent(Error::data(message).help("check what kind of server it is")));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a message like [`Client::send_json`]; once it may have arrived, only if it may be sent again.
    pub async fn send(&self, post: &HttpRequest) -> Result<HttpResponse, HttpFault> {
        let chance = Chance::new(0).child(&post.body, &[]);
        let mut tried = 0;
        loop {
            let answer = {
                let _place = self.permits.acquire().await;
                self.send_once(post).await
            };
            tried += 1;
            let (fault, asked) = match answer {
                Ok(heard) => return Ok(heard),
                Err(AttemptFault::Final(fault)) => return Err(fault),
                Err(AttemptFault::Retryable(fault, asked)) => (fault, asked),
            };
            let impatient = asked.filter(|asked| *asked > retry::MAX_RETRY_AFTER);
            let again = post.idempotent || fault.delivery == DeliveryStatus::NotProcessed;
            if !again || tried >= self.limits.attempts || impatient.is_some() {
                return Err(final_fault(fault, tried, impatient));
            }
            tokio::time::sleep(retry::retry_delay(tried, asked, &chance)).await;
        }
    }

    async fn send_once(&self, post: &HttpRequest) -> Result<HttpResponse, AttemptFault> {
        let url = self.address.url();
        let mut request = if post.is_delete {
            self.http.delete(url)
        } else {
            self.http.post(url).header(CONTENT_TYPE, "application/json").body(post.body.clone())
        };
        request = request.header(ACCEPT, post.accept);
        for (name, value) in &post.headers {
            request = request.header(*name, value);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let mut answer = request.send().await.map_err(|e| self.transport_fault("", e))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.status_fault("", status, answer).await);
        }
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_string());
        let (kind, wanted) = (header("content-type").unwrap_or_default(), post.response_header.and_then(header));
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.transport_fault("", e))? {
            if bytes.len() + part.len() > self.limits.response_bytes {
                let message = format!("{} answers with more than {} bytes", self.address, self.limits.response_bytes);
                return Err(AttemptFault::permanent(Error::data(message).help("check what kind of server it is")));
            }
            bytes.extend_from_slice(&part);
            // A stream may stay open after its last event.
            if post.is_complete.is_some_and(|enough| enough(&kind, &bytes, &post.body)) {
                break;
            }
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        if post.is_json
            && let Err(e) = serde_json::from_str::<IgnoredAny>(&body)
            && e.is_eof()
        {
            let error = Error::retryable(format!("{} cut its answer off", self.address)).caused_by(&e);
            return Err(AttemptFault::retryable(error));
        }
        Ok(HttpResponse { content_type: kind, header: wanted, body })
    }

    fn transport_fault(&self, path: &str, error: reqwest::Error) -> AttemptFault {
        let error = error.without_url();
        let (reach, what) = if error.is_timeout() && !error.is_connect() {
            (DeliveryStatus::TimedOut, format!("{} did not answer within {:?}", self.place(path), self.limits.timeout))
        } else if error.is_connect() {
            (DeliveryStatus::NotProcessed, format!("{} cannot be reached", self.address))
        } else {
            (DeliveryStatus::MaybeProcessed, format!("{} broke the connection off", self.place(path)))
        };
        let help = "check that the server runs, and the URL; a slow server needs a longer `timeout`";
        AttemptFault::undelivered(reach, Error::retryable(what).help(help).caused_by(&error))
    }

    fn place(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

/// Returns the fault that ends the attempts.
fn final_fault(mut fault: HttpFault, tried: u32, asked: Option<Duration>) -> HttpFault {
    if let Some(asked) = asked {
        fault.error.message = format!("{} (and asks to wait for {} s)", fault.error.message, asked.as_secs());
    } else if tried > 1 {
        fault.error.message = format!("{} ({tried} tries)", fault.error.message);
    }
    fault
}
