//! Sends the chat requests of one part to one model. Requests are sent as fast as the options permit, and every
//! response is stored before the part receives it.

use crate::budget::Budget;
use crate::models::Models;
use crate::options::ChatOptions;
use crate::rate_limiter::RateLimiter;
use crate::record::{ChatRecord, ChatRequestKey};
use crate::request::ChatRequest;
use crate::response::ChatResponse;
use crate::usage::ChatUsage;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Clock, Digest, Error, ErrorKind, Result, SystemClock};
use trainyard_http::{BaseUrl, HttpClient, HttpFault, JsonRequest};

const PATH: &str = "/v1/chat/completions";
/// Interval at which cancellation of the stage is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Timeout for responses in flight when the stage was cancelled.
const GRACE: Duration = Duration::from_secs(2);

/// Id of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChatRequestId(u64);

/// The client of one part of a stage for one model.
pub struct ChatClient {
    options: ChatOptions,
    service: String,
    models: Arc<Models>,
    http: HttpClient,
    clock: SystemClock,
    rate: RateLimiter,
    budget: Budget,
    next: u64,
    /// Requests whose responses were not looked up yet.
    fresh: Vec<(Digest, ChatRequestKey)>,
    /// Requests without a response, in order.
    waiting: VecDeque<(Digest, ChatRequestKey)>,
    in_flight: BTreeMap<trainyard_http::HttpRequestId, InFlightRequest>,
    /// Ids that wait for each response.
    waiters: BTreeMap<Digest, Vec<ChatRequestId>>,
    ready: VecDeque<(ChatRequestId, Result<ChatResponse>)>,
    /// Requests that this round counted.
    counted: BTreeSet<Digest>,
    charged: BTreeSet<Digest>,
    usage: ChatUsage,
    /// Index in the account of all usage.
    account_index: usize,
    /// Whether the responses enter the stage's output `requests` and its metrics.
    listed: bool,
}

/// A request in flight.
struct InFlightRequest {
    digest: Digest,
    request: ChatRequestKey,
    /// Amount reserved in the budget.
    reserved: f64,
    /// Expected tokens.
    expected: u64,
}

impl ChatClient {
    /// Opens a client of a model with the stage's shared state, and registers it in the account of usage. No request is
    /// sent yet.
    ///
    /// Errors: invalid (the address, or a key that the stage lacks).
    pub fn open(models: &Arc<Models>, options: &ChatOptions) -> Result<Self> {
        let address = BaseUrl::read(&options.endpoint)?;
        let service = options.service.clone().unwrap_or_else(|| address.to_string());
        let key = options.api_key.as_ref().map(|name| models.secret(name)).transpose()?;
        let http = HttpClient::open(address, key, options.limits())?;
        let usage = ChatUsage { price: options.price, ..ChatUsage::default() };
        Ok(Self {
            http,
            clock: SystemClock::new(),
            rate: RateLimiter::new(options),
            budget: Budget::new(options),
            account_index: models.register(usage),
            usage,
            options: options.clone(),
            service,
            models: Arc::clone(models),
            next: 0,
            fresh: Vec::new(),
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            waiters: BTreeMap::new(),
            ready: VecDeque::new(),
            counted: BTreeSet::new(),
            charged: BTreeSet::new(),
            listed: true,
        })
    }
    /// Excludes the responses of this client from the output `requests` and from the stage's metrics. A part that a
    /// resumed attempt does not repeat uses it, so that both are the same as without an interruption.
    pub fn unlisted(mut self) -> Self {
        self.listed = false;
        self.models.exclude(self.account_index);
        self
    }
    /// Returns the counts of requests and responses so far.
    pub fn usage(&self) -> ChatUsage {
        self.usage
    }
    /// Begins a round. Requests of earlier rounds are counted again when they recur, so that the counts of a round do
    /// not depend on the rounds that this attempt has run before.
    pub fn begin_round(&mut self) {
        self.counted.clear();
    }
    /// Queues a request, whose response [`ChatClient::next`] returns. Equal requests share one response.
    ///
    /// Errors: bug, if the request has no canonical form.
    pub fn send(&mut self, request: &ChatRequest) -> Result<ChatRequestId> {
        let id = ChatRequestId(self.next);
        self.next += 1;
        let body = request.body(&self.options);
        let key = ChatRequestKey { service: self.service.clone(), path: PATH.into(), body, draw: request.draw };
        let digest = key.digest()?;
        let waiters = self.waiters.entry(digest.clone()).or_default();
        waiters.push(id);
        // An equal request waits for the response to the first one.
        if waiters.len() == 1 {
            self.fresh.push((digest, key));
        }
        Ok(id)
    }
    /// Sends queued requests and returns the next response in the order of arrival. Returns `None` after `wait`, or at
    /// once if no request is open. The inner error concerns one request: the server rejects it, or its response is not
    /// a chat completion.
    ///
    /// Errors end the stage: the server is unreachable (retryable), it rejects the key or lacks the model (invalid), it
    /// responds as another model (invalid), the spend limit is reached (invalid), or the stage was cancelled. Before an
    /// error is returned, the responses in flight are awaited and stored.
    pub fn next(&mut self, wait: Duration) -> Result<Option<(ChatRequestId, Result<ChatResponse>)>> {
        let deadline = self.clock.monotonic().saturating_add(wait);
        loop {
            if let Some(response) = self.ready.pop_front() {
                return Ok(Some(response));
            }
            if self.waiters.is_empty() {
                return Ok(None);
            }
            if let Err(error) = self.advance(deadline) {
                self.drain_in_flight();
                return Err(error.at(format!("model `{}` at {}", self.options.model, self.options.endpoint)));
            }
            if self.ready.is_empty() && self.clock.monotonic() >= deadline {
                return Ok(None);
            }
        }
    }
    /// Sends requests, waits for all responses, and returns them in the order of the requests. `done` is called after
    /// each response with the number of responses so far; its error ends the wait.
    ///
    /// Errors: those of [`ChatClient::next`] and of `done`.
    pub fn send_all(
        &mut self,
        requests: &[ChatRequest],
        mut done: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Result<ChatResponse>>> {
        let ids = requests.iter().map(|request| self.send(request)).collect::<Result<Vec<_>>>()?;
        let mut responses = BTreeMap::new();
        while responses.len() < ids.len() {
            if let Some((id, response)) = self.next(POLL_INTERVAL)? {
                responses.insert(id, response);
                done(responses.len())?;
            }
        }
        let missing = || Err(Error::bug("a request got no response"));
        Ok(ids.iter().map(|id| responses.remove(id).unwrap_or_else(missing)).collect())
    }

    fn advance(&mut self, deadline: Duration) -> Result<()> {
        self.models.stop_if_cancelled()?;
        self.look_up()?;
        if !self.ready.is_empty() {
            return Ok(());
        }
        self.send_waiting()?;
        let now = self.clock.monotonic();
        let mut pause = deadline.saturating_sub(now).min(POLL_INTERVAL);
        if !self.waiting.is_empty() && self.in_flight.len() < self.options.concurrency {
            pause = pause.min(self.rate.wait(now).max(Duration::from_millis(1)));
        }
        self.receive(pause)
    }

    /// Looks up the stored responses of new requests, and queues the requests without one for sending.
    fn look_up(&mut self) -> Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let fresh = std::mem::take(&mut self.fresh);
        let digests: Vec<Digest> = fresh.iter().map(|(digest, _)| digest.clone()).collect();
        let found = self.models.find(&digests)?;
        for ((digest, request), found) in fresh.into_iter().zip(found) {
            match found {
                Some(bytes) => self.take(&digest, &bytes, false)?,
                None => self.waiting.push_back((digest, request)),
            }
        }
        Ok(())
    }

    /// Sends queued requests within the limits on concurrency, rate and spend.
    fn send_waiting(&mut self) -> Result<()> {
        while let Some((_, request)) = self.waiting.front()
            && self.in_flight.len() < self.options.concurrency
            && self.rate.wait(self.clock.monotonic()).is_zero()
        {
            let bytes = request.body.to_string().len();
            let Some(reserved) = self.budget.reserve(bytes, !self.in_flight.is_empty())? else { return Ok(()) };
            let Some((digest, request)) = self.waiting.pop_front() else { return Ok(()) };
            // A token of text has about four bytes.
            let expected = bytes as u64 / 4 + self.options.limit().unwrap_or(0);
            self.rate.record_sent(self.clock.monotonic(), expected);
            let id = self.http.send(JsonRequest::post(PATH, request.body.clone()), ());
            self.in_flight.insert(id, InFlightRequest { digest, request, reserved, expected });
        }
        Ok(())
    }

    /// Receives the responses that arrive within `wait`, and stores them.
    fn receive(&mut self, wait: Duration) -> Result<()> {
        let Some(first) = self.http.next(wait) else { return Ok(()) };
        let mut results = vec![first];
        results.extend(std::iter::from_fn(|| self.http.next(Duration::ZERO)));
        let (mut records, mut end) = (Vec::new(), None);
        for (id, response) in results {
            let Some(flight) = self.in_flight.remove(&id) else { continue };
            match response {
                Ok(body) => records.extend(self.record_response(flight, body)?),
                Err(fault) => {
                    self.budget.release(flight.reserved);
                    self.rate.correct_tokens(flight.expected, 0);
                    match is_request_fault(&fault) {
                        true => self.resolve(&flight.digest, &Err(fault.error)),
                        false => end = Some(fault.error),
                    }
                }
            }
        }
        let digests: Vec<Digest> = records.iter().map(|(digest, _)| Digest::clone(digest)).collect();
        let stored = self.models.keep(records)?;
        for (digest, bytes) in digests.iter().zip(&stored) {
            if let Err(error) = self.take(digest, bytes, true) {
                end.get_or_insert(error);
            }
        }
        end.map_or(Ok(()), Err)
    }

    /// Settles budget and rate of a response, and returns its record to store. A response that is not a chat completion
    /// fails its request and is not stored (`None`): a retry may succeed.
    fn record_response(&mut self, flight: InFlightRequest, body: Value) -> Result<Option<(Digest, Vec<u8>)>> {
        let read = ChatResponse::read(&body);
        let tokens = read.as_ref().ok().and_then(|response| response.tokens);
        self.budget.settle(flight.reserved, tokens);
        self.rate
            .correct_tokens(flight.expected, tokens.map_or(flight.expected, |(prompt, response)| prompt + response));
        if let Err(error) = read {
            self.resolve(&flight.digest, &Err(error));
            return Ok(None);
        }
        let record = ChatRecord::new(flight.request, body).write()?;
        Ok(Some((flight.digest, record)))
    }

    /// Counts a stored response and resolves its waiting requests. Errors: data (a damaged record), invalid (another
    /// model has responded).
    fn take(&mut self, digest: &Digest, bytes: &[u8], is_new: bool) -> Result<()> {
        let record = ChatRecord::read(bytes, digest)?;
        let response = ChatResponse::read(&record.answer)?;
        let uncharged = self.charged.insert(digest.clone());
        if self.counted.insert(digest.clone()) {
            self.usage.requests += 1;
            self.usage.sent += u64::from(is_new);
            if let Some((prompt, completion)) = response.tokens {
                self.usage.prompt_tokens += prompt;
                self.usage.completion_tokens += completion;
                if !is_new && uncharged {
                    self.budget.record_stored((prompt, completion));
                }
            }
            if self.listed {
                self.models.record_use(digest, &record, &response)?;
            }
            self.models.set_usage(self.account_index, self.usage);
        }
        self.expect_model(&response)?;
        self.resolve(digest, &Ok(response));
        Ok(())
    }

    /// Checks the model of a response. Errors: invalid, if the response names another model.
    fn expect_model(&self, response: &ChatResponse) -> Result<()> {
        let Some(name) = response.model.as_ref() else { return Ok(()) };
        let names = || std::iter::once(&self.options.model).chain(&self.options.served_as);
        if names().any(|known| name == known || is_dated(name, known)) {
            return Ok(());
        }
        let message =
            format!("the request is for model `{}`, but the server responded as `{name}`", self.options.model);
        Err(Error::invalid(message).help(format!(
            "if it is the same model, add `served_as: [{name}]`; the response is stored and is not paid for again"
        )))
    }

    fn resolve(&mut self, digest: &Digest, response: &Result<ChatResponse>) {
        for id in self.waiters.remove(digest).unwrap_or_default() {
            self.ready.push_back((id, response.clone()));
        }
    }

    /// Waits for the responses in flight and stores them. After a cancellation it waits for at most [`GRACE`].
    fn drain_in_flight(&mut self) {
        let deadline = self.clock.monotonic() + GRACE;
        while !self.in_flight.is_empty() {
            if self.models.stop_if_cancelled().is_err() && self.clock.monotonic() > deadline {
                return;
            }
            let Some((id, response)) = self.http.next(POLL_INTERVAL) else { continue };
            let Some(flight) = self.in_flight.remove(&id) else { continue };
            let Ok(body) = response else { continue };
            if let Ok(Some(record)) = self.record_response(flight, body) {
                // The stage reports the first error, not those that follow from it.
                let _ = self.models.keep(vec![record]);
            }
        }
    }
}

/// Returns whether a fault concerns a single request, so that other requests may succeed.
fn is_request_fault(fault: &HttpFault) -> bool {
    matches!(fault.status, Some(400 | 413 | 414 | 422)) || fault.error.kind == ErrorKind::Data
}

/// Returns whether a name is that of a model and the date of its release: `NAME-2024-08-06` or `NAME-20240806`.
/// Services respond with such a name to one without a date.
fn is_dated(name: &str, model: &str) -> bool {
    let Some(date) = name.strip_prefix(model).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = date.split('-').collect();
    match parts.as_slice() {
        [all] => digits(all, 8),
        [year, month, day] => digits(year, 4) && digits(month, 2) && digits(day, 2),
        _ => false,
    }
}
