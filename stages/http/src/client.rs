//! One service: requests with their key, their bounds and their retries.

use crate::address::Address;
use crate::fault::{Failed, Fault, Reach};
use crate::retry;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Semaphore;
use trainyard_core::{Chance, Error, Result, Secret};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer that is an error.
const ERROR_BODY: usize = 64 << 10;

/// Bounds of what is asked of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight.
    pub requests: usize,
    /// Tries of one request, the first included.
    pub attempts: u32,
    /// Time of one try, from sending it to the last byte of its answer.
    pub timeout: Duration,
    /// Bytes of an answer.
    pub answer: usize,
}

/// One request: `GET` without a body, `POST` with one.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Path below the address, from the slash.
    pub path: &'static str,
    /// The JSON to send.
    pub body: Option<Value>,
}

impl Call {
    /// Asks for what is at a path.
    pub fn get(path: &'static str) -> Self {
        Self { path, body: None }
    }
    /// Sends JSON to a path.
    pub fn post(path: &'static str, body: Value) -> Self {
        Self { path, body: Some(body) }
    }
}

/// Whether the answer so far (its content type, its bytes) is all that the body asked for.
pub type Enough = fn(&str, &[u8], &str) -> bool;

/// A message for the address itself, whose answer is text.
#[derive(Debug, Clone)]
pub struct Post {
    /// JSON.
    pub body: String,
    /// `DELETE` without a body instead.
    pub is_delete: bool,
    /// Headers beside those that every request has.
    pub headers: Vec<(&'static str, String)>,
    /// The forms of an answer that are understood.
    pub accept: &'static str,
    /// The header of the answer that is given on.
    pub wanted: Option<&'static str>,
    /// It may be sent again when nobody knows whether it arrived; otherwise only when it certainly did not.
    pub again: bool,
    /// The answer is one JSON value: one that ends in the middle of it was broken off.
    pub whole: bool,
    /// When to stop reading a stream that stays open; none reads to its end.
    pub enough: Option<Enough>,
}

impl Post {
    /// JSON that may be sent again, and is answered with JSON.
    pub fn json(body: String) -> Self {
        let (headers, accept) = (Vec::new(), "application/json");
        Self { body, is_delete: false, headers, accept, wanted: None, again: true, whole: false, enough: None }
    }
}

/// What a message was answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its content type; empty if it has none.
    pub kind: String,
    /// The header that was asked for.
    pub wanted: Option<String>,
    /// The answer, or the part of it that is enough.
    pub body: String,
}

/// What a service wants to see before it answers.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Goes into the header `Authorization` as a bearer's.
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
    /// The further headers. Errors: invalid, without the value.
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

pub(crate) struct Client {
    http: reqwest::Client,
    address: Address,
    key: Option<Secret>,
    limits: Limits,
    places: Semaphore,
}

impl Client {
    pub fn new(address: Address, credentials: Credentials, limits: Limits) -> Result<Self> {
        // Another part of the program may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A redirection could carry the key elsewhere.
        let http = reqwest::Client::builder().connect_timeout(CONNECT).timeout(limits.timeout).redirect(Policy::none());
        let http = http
            .default_headers(credentials.map()?)
            .build()
            .map_err(|e| Error::bug(format!("no client for {address}: {e}")))?;
        Ok(Self { http, address, key: credentials.key, limits, places: Semaphore::new(limits.requests.max(1)) })
    }

    /// Sends a request until it is answered, as often as the limits allow. Text that is no JSON comes as a string.
    pub async fn exchange(&self, call: &Call) -> Result<Value, Fault> {
        let body = call.body.as_ref().map(Value::to_string);
        let chance = Chance::new(0).child(&format!("{} {}", call.path, body.as_deref().unwrap_or_default()), &[]);
        let mut tried = 0;
        loop {
            let answer = {
                let _place = self.places.acquire().await;
                self.once(call.path, body.as_deref()).await
            };
            tried += 1;
            let (fault, asked) = match answer {
                Ok(value) => return Ok(value),
                Err(Failed::Final(fault)) => return Err(fault),
                Err(Failed::Passing(fault, asked)) => (fault, asked),
            };
            let impatient = asked.filter(|asked| *asked > retry::PATIENCE);
            if tried >= self.limits.attempts || impatient.is_some() {
                return Err(after(fault, tried, impatient));
            }
            tokio::time::sleep(retry::wait(tried, asked, &chance)).await;
        }
    }

    async fn once(&self, path: &str, body: Option<&str>) -> Result<Value, Failed> {
        let url = self.address.of(path);
        let mut request = match body {
            None => self.http.get(url),
            Some(body) => self.http.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()),
        };
        request = request.header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let answer = request.send().await.map_err(|e| self.broken(path, e))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refused(path, status, answer).await);
        }
        let is_json = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.contains("json")));
        let text = self.text(path, answer, self.limits.answer).await?;
        if !is_json {
            return Ok(Value::String(text));
        }
        serde_json::from_str(&text).map_err(|e| {
            let place = self.place(path);
            if e.is_eof() {
                return Failed::passing(Error::retryable(format!("{place} cut its answer off")).caused_by(&e));
            }
            Failed::lasting(Error::data(format!("{place} answers what is no JSON")).caused_by(&e))
        })
    }

    async fn refused(&self, path: &str, status: StatusCode, answer: Response) -> Failed {
        let asked = retry::asked(answer.headers());
        let body = self.text(path, answer, ERROR_BODY).await.unwrap_or_default();
        Failed::of_status(&self.place(path), status, &body, asked)
    }

    /// The body as text. Errors: passing, if it breaks off; final, if it is too long.
    async fn text(&self, path: &str, mut answer: Response, most: usize) -> Result<String, Failed> {
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.broken(path, e))? {
            if bytes.len() + part.len() > most {
                let message = format!("{} answers with more than {most} bytes", self.place(path));
                return Err(Failed::lasting(Error::data(message).help("check what kind of server it is")));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a message, as [`Client::exchange`] does; once it may have arrived, only if it may be sent again.
    pub async fn deliver(&self, post: &Post) -> Result<Heard, Fault> {
        let chance = Chance::new(0).child(&post.body, &[]);
        let mut tried = 0;
        loop {
            let answer = {
                let _place = self.places.acquire().await;
                self.post(post).await
            };
            tried += 1;
            let (fault, asked) = match answer {
                Ok(heard) => return Ok(heard),
                Err(Failed::Final(fault)) => return Err(fault),
                Err(Failed::Passing(fault, asked)) => (fault, asked),
            };
            let impatient = asked.filter(|asked| *asked > retry::PATIENCE);
            let again = post.again || fault.reach == Reach::Untaken;
            if !again || tried >= self.limits.attempts || impatient.is_some() {
                return Err(after(fault, tried, impatient));
            }
            tokio::time::sleep(retry::wait(tried, asked, &chance)).await;
        }
    }

    async fn post(&self, post: &Post) -> Result<Heard, Failed> {
        let url = self.address.whole();
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
        let mut answer = request.send().await.map_err(|e| self.broken("", e))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refused("", status, answer).await);
        }
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_string());
        let (kind, wanted) = (header("content-type").unwrap_or_default(), post.wanted.and_then(header));
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.broken("", e))? {
            if bytes.len() + part.len() > self.limits.answer {
                let message = format!("{} answers with more than {} bytes", self.address, self.limits.answer);
                return Err(Failed::lasting(Error::data(message).help("check what kind of server it is")));
            }
            bytes.extend_from_slice(&part);
            // A stream may stay open after its last word.
            if post.enough.is_some_and(|enough| enough(&kind, &bytes, &post.body)) {
                break;
            }
        }
        let body = String::from_utf8_lossy(&bytes).into_owned();
        if post.whole
            && let Err(e) = serde_json::from_str::<IgnoredAny>(&body)
            && e.is_eof()
        {
            let error = Error::retryable(format!("{} cut its answer off", self.address)).caused_by(&e);
            return Err(Failed::passing(error));
        }
        Ok(Heard { kind, wanted, body })
    }

    fn broken(&self, path: &str, error: reqwest::Error) -> Failed {
        let error = error.without_url();
        let (reach, what) = if error.is_timeout() && !error.is_connect() {
            (Reach::Late, format!("{} did not answer within {:?}", self.place(path), self.limits.timeout))
        } else if error.is_connect() {
            (Reach::Untaken, format!("{} cannot be reached", self.address))
        } else {
            (Reach::Taken, format!("{} broke the connection off", self.place(path)))
        };
        let help = "check that the server runs, and the URL; a slow server needs a longer `timeout`";
        Failed::broken(reach, Error::retryable(what).help(help).caused_by(&error))
    }

    fn place(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

/// The fault that ends the tries.
fn after(mut fault: Fault, tried: u32, asked: Option<Duration>) -> Fault {
    if let Some(asked) = asked {
        fault.error.message = format!("{} (and asks to wait for {} s)", fault.error.message, asked.as_secs());
    } else if tried > 1 {
        fault.error.message = format!("{} ({tried} tries)", fault.error.message);
    }
    fault
}
