//! Client of one model: requests are sent as fast as the options permit, and every answer is stored before it is used.

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
/// Timeout for answers in flight when the stage was cancelled.
const GRACE: Duration = Duration::from_secs(2);

/// Id of a question.
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
    /// Questions whose answers were not looked up yet.
    fresh: Vec<(Digest, ChatRequestKey)>,
    /// Unanswered questions, in order.
    waiting: VecDeque<(Digest, ChatRequestKey)>,
    in_flight: BTreeMap<trainyard_http::HttpRequestId, InFlightRequest>,
    /// Tickets that wait for each answer.
    waiters: BTreeMap<Digest, Vec<ChatRequestId>>,
    ready: VecDeque<(ChatRequestId, Result<ChatResponse>)>,
    /// Requests of this round that were counted, and those of all rounds that the budget includes.
    counted: BTreeSet<Digest>,
    charged: BTreeSet<Digest>,
    usage: ChatUsage,
    place: usize,
    /// Whether the answers enter the stage's output `requests` and its metrics.
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
    /// Opens a client of a model, with the stage's shared state. No request is sent yet.
    ///
    /// Errors: invalid (the address, a key that the stage lacks).
    pub fn open(models: &Arc<Models>, options: &ChatOptions) -> Result<Self> {
        let address = BaseUrl::read(&options.endpoint)?;
        let service = options.service.clone().unwrap_or_else(|| address.to_string());
        let key = options.api_key.as_ref().map(|name| models.secret(name)).transpose()?;
        let desk = HttpClient::open(address, key, options.limits())?;
        let tally = ChatUsage { price: options.price, ..ChatUsage::default() };
        Ok(Self {
            http: desk,
            clock: SystemClock::new(),
            rate: RateLimiter::new(options),
            budget: Budget::new(options),
            place: models.register(tally),
            usage: tally,
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
    /// Excludes answers from the output `requests` and the stage's own metrics: for a part that a resumed attempt does
    /// not repeat, so that both are the same as without a pause.
    pub fn unlisted(mut self) -> Self {
        self.listed = false;
        self.models.exclude(self.place);
        self
    }
    /// Returns the counts of requests and answers so far.
    pub fn usage(&self) -> ChatUsage {
        self.usage
    }
    /// Begins a round: later requests count anew, so that a round counts the same whether or not the earlier ones were
    /// part of this attempt.
    pub fn begin_round(&mut self) {
        self.counted.clear();
    }
    /// Sends a question, whose answer [`ChatClient::next`] returns. Errors: bug, if it has no canonical form.
    pub fn send(&mut self, question: &ChatRequest) -> Result<ChatRequestId> {
        let ticket = ChatRequestId(self.next);
        self.next += 1;
        let body = question.body(&self.options);
        let request = ChatRequestKey { service: self.service.clone(), path: PATH.into(), body, draw: question.draw };
        let digest = request.digest()?;
        let waiters = self.waiters.entry(digest.clone()).or_default();
        waiters.push(ticket);
        // An equal question waits for the answer of the first one.
        if waiters.len() == 1 {
            self.fresh.push((digest, request));
        }
        Ok(ticket)
    }
    /// Returns the next answer, in the order of arrival, or `None` after `wait`, or if there is no open question. The
    /// inner error is about this question alone: the server rejects it, or its response is no chat completion.
    ///
    /// Errors end the stage: the server is unreachable (retryable), it rejects the key or lacks the model (invalid), it
    /// answers as another model (invalid), the limit on spend is reached (invalid), the stage was cancelled. Answers in
    /// flight are first awaited and stored.
    pub fn next(&mut self, wait: Duration) -> Result<Option<(ChatRequestId, Result<ChatResponse>)>> {
        let until = self.clock.monotonic().saturating_add(wait);
        loop {
            if let Some(answered) = self.ready.pop_front() {
                return Ok(Some(answered));
            }
            if self.waiters.is_empty() {
                return Ok(None);
            }
            if let Err(error) = self.advance(until) {
                self.drain_in_flight();
                return Err(error.at(format!("model `{}` at {}", self.options.model, self.options.endpoint)));
            }
            if self.ready.is_empty() && self.clock.monotonic() >= until {
                return Ok(None);
            }
        }
    }
    /// Sends questions and waits for all answers, which are in the same order. `done` receives their number.
    ///
    /// Errors: those of [`ChatClient::next`].
    pub fn send_all(
        &mut self,
        questions: &[ChatRequest],
        mut done: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Result<ChatResponse>>> {
        let tickets = questions.iter().map(|question| self.send(question)).collect::<Result<Vec<_>>>()?;
        let mut answers = BTreeMap::new();
        while answers.len() < tickets.len() {
            if let Some((ticket, answer)) = self.next(POLL_INTERVAL)? {
                answers.insert(ticket, answer);
                done(answers.len())?;
            }
        }
        let lost = || Err(Error::bug("a question was asked and never answered"));
        Ok(tickets.iter().map(|ticket| answers.remove(ticket).unwrap_or_else(lost)).collect())
    }

    fn advance(&mut self, until: Duration) -> Result<()> {
        self.models.stop_if_cancelled()?;
        self.look_up()?;
        if !self.ready.is_empty() {
            return Ok(());
        }
        self.send_waiting()?;
        let now = self.clock.monotonic();
        let mut pause = until.saturating_sub(now).min(POLL_INTERVAL);
        if !self.waiting.is_empty() && self.in_flight.len() < self.options.concurrency {
            pause = pause.min(self.rate.wait(now).max(Duration::from_millis(1)));
        }
        self.receive(pause)
    }

    /// Takes the answers that are already stored.
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

    /// Sends the requests that are permitted now.
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
            let ticket = self.http.send(JsonRequest::post(PATH, request.body.clone()), ());
            self.in_flight.insert(ticket, InFlightRequest { digest, request, reserved, expected });
        }
        Ok(())
    }

    /// Takes the answers that arrive within a time.
    fn receive(&mut self, wait: Duration) -> Result<()> {
        let Some(first) = self.http.next(wait) else { return Ok(()) };
        let mut came = vec![first];
        came.extend(std::iter::from_fn(|| self.http.next(Duration::ZERO)));
        let (mut records, mut end) = (Vec::new(), None);
        for (ticket, answer) in came {
            let Some(flight) = self.in_flight.remove(&ticket) else { continue };
            match answer {
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
        let kept = self.models.keep(records)?;
        for (digest, bytes) in digests.iter().zip(&kept) {
            if let Err(error) = self.take(digest, bytes, true) {
                end.get_or_insert(error);
            }
        }
        end.map_or(Ok(()), Err)
    }

    /// Returns the record of an answer to store. A response that is no chat completion is not stored: a retry may
    /// succeed.
    fn record_response(&mut self, flight: InFlightRequest, body: Value) -> Result<Option<(Digest, Vec<u8>)>> {
        let read = ChatResponse::read(&body);
        let tokens = read.as_ref().ok().and_then(|answer| answer.tokens);
        self.budget.settle(flight.reserved, tokens);
        self.rate.correct_tokens(flight.expected, tokens.map_or(flight.expected, |(prompt, answer)| prompt + answer));
        if let Err(error) = read {
            self.resolve(&flight.digest, &Err(error));
            return Ok(None);
        }
        let record = ChatRecord::new(flight.request, body).write()?;
        Ok(Some((flight.digest, record)))
    }

    /// Takes a stored answer. Errors: data (a damaged record), invalid (another model has answered).
    fn take(&mut self, digest: &Digest, bytes: &[u8], asked: bool) -> Result<()> {
        let record = ChatRecord::read(bytes, digest)?;
        let answer = ChatResponse::read(&record.answer)?;
        let uncharged = self.charged.insert(digest.clone());
        if self.counted.insert(digest.clone()) {
            self.usage.requests += 1;
            self.usage.sent += u64::from(asked);
            if let Some((prompt, completion)) = answer.tokens {
                self.usage.prompt_tokens += prompt;
                self.usage.completion_tokens += completion;
                if !asked && uncharged {
                    self.budget.found((prompt, completion));
                }
            }
            if self.listed {
                self.models.record_use(digest, &record, &answer)?;
            }
            self.models.set_usage(self.place, self.usage);
        }
        self.expect_model(&answer)?;
        self.resolve(digest, &Ok(answer));
        Ok(())
    }

    /// Checks the model of an answer. Errors: invalid, if the answer names another model.
    fn expect_model(&self, answer: &ChatResponse) -> Result<()> {
        let Some(name) = answer.model.as_ref() else { return Ok(()) };
        if *name == self.options.model || self.options.served_as.contains(name) {
            return Ok(());
        }
        let message = format!("`{}` was asked, and `{name}` has answered", self.options.model);
        Err(Error::invalid(message).help(format!(
            "if that is the same model, add `served_as: [{name}]`; the answer is kept and is not paid for again"
        )))
    }

    fn resolve(&mut self, digest: &Digest, answer: &Result<ChatResponse>) {
        for ticket in self.waiters.remove(digest).unwrap_or_default() {
            self.ready.push_back((ticket, answer.clone()));
        }
    }

    /// Waits for the answers in flight, and stores them.
    fn drain_in_flight(&mut self) {
        let given_up = self.clock.monotonic() + GRACE;
        while !self.in_flight.is_empty() {
            if self.models.stop_if_cancelled().is_err() && self.clock.monotonic() > given_up {
                return;
            }
            let Some((ticket, answer)) = self.http.next(POLL_INTERVAL) else { continue };
            let Some(flight) = self.in_flight.remove(&ticket) else { continue };
            let Ok(body) = answer else { continue };
            if let Ok(Some(record)) = self.record_response(flight, body) {
                // The stage ends with the first error, not with its consequences.
                let _ = self.models.keep(vec![record]);
            }
        }
    }
}

/// Returns whether a fault is about one question, so that others may be answered.
fn is_request_fault(fault: &HttpFault) -> bool {
    matches!(fault.status, Some(400 | 413 | 414 | 422)) || fault.error.kind == ErrorKind::Data
}
