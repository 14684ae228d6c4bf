//! Client of a service: every line is a separate request, whose answer is a line.

use super::handshake::{HandshakeCallback, HandshakeResult, HandshakeState, HandshakeStep};
use super::options::ServiceOptions;
use crate::programs::CustomCodeOptions;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, ErrorKind, OptionProblem, Result, Secrets};
use trainyard_http::{CallbackClient, DeliveryStatus, HttpFault, HttpRequest, HttpResponse};
use trainyard_process::{
    Hello, PendingProgramResponse, ProgramFault, ProgramLog, ProgramRequest, ProgramResponder, ProgramResponse,
    ProgramResult, ProgramService, SessionLocation, hello_body, hello_line, parse_ready, parse_response,
    pending_response,
};

/// How long the end of the client waits until the service has received the ends of sessions.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub struct ServiceClient(Arc<ServiceClientInner>);

struct ServiceClientInner {
    http: CallbackClient,
    /// Name of the part in messages: ``reward `http` ``.
    part: String,
    /// Name of the part with the address.
    place: String,
    /// Message of the handshake.
    hello: String,
    /// Fields that every request contains in addition to the line.
    request_fields: String,
    /// Part of the names of sessions, so that two stages may use one service.
    client: String,
    requests: AtomicU64,
    generations: AtomicU64,
    handshake: Mutex<HandshakeState>,
    /// Number of the life of each session that the service may know.
    sessions: Mutex<BTreeMap<u64, u64>>,
    /// Number of sessions whose end the service has not acknowledged.
    closing: (Mutex<usize>, Condvar),
}

impl ServiceClient {
    /// Returns the client without sending a request. Errors: invalid (the options, a secret that the stage was not
    /// given).
    pub fn new(options: &ServiceOptions, about_part: Hello<'_>, secrets: &Secrets) -> Result<Self> {
        let Hello { role, name, seed } = about_part;
        let part = format!("{role} `{}`", if name.is_empty() { ServiceOptions::KIND } else { name });
        let open = || {
            let (address, limits) = (options.address()?, options.limits()?);
            let shown = address.to_string();
            Ok((CallbackClient::open(address, options.credentials(secrets)?, limits)?, shown))
        };
        let (postbox, address) = open().map_err(|e: Error| e.at(&part))?;
        // The name must differ from that of any other client on any host; no result depends on it.
        let client = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(Self(Arc::new(ServiceClientInner {
            http: postbox,
            place: format!("{part} ({address})"),
            part,
            hello: hello_line(role, name, &options.options, seed),
            request_fields: format!("\"hello\":{}", hello_body(role, name, &options.options, seed)),
            client,
            requests: AtomicU64::new(1),
            generations: AtomicU64::new(1),
            handshake: Mutex::default(),
            sessions: Mutex::default(),
            closing: (Mutex::new(0), Condvar::new()),
        })))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a request that is answered with one JSON value.
fn post(line: &str, again: bool) -> HttpRequest {
    HttpRequest { idempotent: again, is_json: true, ..HttpRequest::json(line.trim_end().to_string()) }
}

impl ServiceClientInner {
    /// Calls `then` once the handshake is complete.
    fn after_handshake(self: &Arc<Self>, then: HandshakeCallback) {
        let turn = lock(&self.handshake).enter(then);
        match turn {
            HandshakeStep::Proceed(then, ready) => then(Ok(ready)),
            HandshakeStep::Start => self.start_handshake(),
            HandshakeStep::Wait => {}
        }
    }
    fn start_handshake(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.http.send(post(&self.hello, true), move |answer| {
            let Some(core) = core.upgrade() else { return };
            let greeted = core.handshake_result(answer);
            let waiting = lock(&core.handshake).end(&greeted);
            waiting.into_iter().for_each(|then| then(greeted.clone()));
        });
    }
    fn handshake_result(&self, answer: Result<HttpResponse, HttpFault>) -> HandshakeResult {
        let heard = answer.map_err(|refusal| Error::from(refusal).at(&self.part))?;
        parse_ready(heard.body.trim().as_bytes()).map_err(|what| {
            let error = Error::invalid(format!("the service cannot be used: {what}")).at(&self.place);
            error.help("check the URL; the service answers the request `hello` of the protocol (docs/custom-code.md)")
        })
    }
    /// Sends a request once the handshake is complete; for a session, with its life.
    fn submit(self: &Arc<Self>, request: &ProgramRequest, life: Option<u64>) -> PendingProgramResponse {
        let (ticket, to) = pending_response();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let line = request.line_with(number, &self.request_fields);
        let core = Arc::downgrade(self);
        self.after_handshake(Box::new(move |greeted| match (greeted, core.upgrade()) {
            (Ok(ready), Some(core)) => {
                // A request that changes a session's state must not be repeated.
                let again = life.is_none() || ready["repeats"] == json!(true);
                core.send(number, post(&line, again), life, to);
            }
            (Err(error), _) => to.resolve(Err(ProgramFault::Outage(error))),
            (Ok(_), None) => {}
        }));
        ticket
    }
    fn send(self: &Arc<Self>, number: u64, post: HttpRequest, life: Option<u64>, to: ProgramResponder) {
        let core = Arc::downgrade(self);
        self.http.send(post, move |answer| {
            if let Some(core) = core.upgrade() {
                to.resolve(core.handle_reply(number, life, answer));
            }
        });
    }
    fn handle_reply(&self, number: u64, life: Option<u64>, answered: Result<HttpResponse, HttpFault>) -> ProgramResult {
        let heard = answered.map_err(|refusal| self.request_fault(refusal, life.is_some()))?;
        let wrong = |what: String| {
            let error = Error::data(format!("the service {what}")).at(&self.place);
            ProgramFault::Outage(
                error.help("a request is answered with `id` and `result` or `error` (docs/custom-code.md)"),
            )
        };
        let (id, result) = parse_response(heard.body.trim().as_bytes()).map_err(wrong)?;
        if id != number {
            return Err(wrong(format!("answered request {id} when it was asked request {number}")));
        }
        result.map(|value| ProgramResponse { value, generation: life.unwrap_or(0) }).map_err(ProgramFault::Exception)
    }
    /// Returns the fault of a request without an answer. A session whose state may be gone or half changed is begun
    /// again.
    fn request_fault(&self, refusal: HttpFault, of_session: bool) -> ProgramFault {
        let HttpFault { status, delivery: reach, .. } = refusal;
        let error = Error::from(refusal).at(&self.part);
        match status {
            _ if !of_session => ProgramFault::Outage(error),
            Some(410) => {
                let lost = Error::retryable("the service does not know this session any more").at(&self.place);
                ProgramFault::Lost(lost.caused_by(&error))
            }
            _ if reach == DeliveryStatus::TimedOut => ProgramFault::TimedOut(error),
            Some(429) => ProgramFault::Outage(error),
            _ if error.kind == ErrorKind::Retryable => ProgramFault::Lost(error),
            _ => ProgramFault::Outage(error),
        }
    }
    /// Returns the service's name of a session in one of its lives.
    fn name(&self, life: u64) -> Value {
        json!(format!("{}-{life}", self.client))
    }
    /// Starts a new life of a session, which ends an earlier one.
    fn begin(self: &Arc<Self>, session: u64) -> u64 {
        let life = self.generations.fetch_add(1, Ordering::Relaxed);
        let before = lock(&self.sessions).insert(session, life);
        before.into_iter().for_each(|life| self.close(life));
        life
    }
    /// Notifies the service that a session is over; only the end of the client waits for the answer.
    fn close(self: &Arc<Self>, life: u64) {
        let body = Map::from_iter([("session".to_string(), self.name(life))]);
        let Ok(request) = ProgramRequest::new("close", &body) else { return };
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        *lock(&self.closing.0) += 1;
        let core = Arc::downgrade(self);
        self.http.send(post(&request.line_with(number, &self.request_fields), false), move |_| {
            if let Some(core) = core.upgrade() {
                *lock(&core.closing.0) -= 1;
                core.closing.1.notify_all();
            }
        });
    }
}

impl ProgramService for ServiceClient {
    fn place(&self) -> &str {
        &self.0.place
    }
    fn ready(&self) -> PendingProgramResponse {
        let (ticket, to) = pending_response();
        self.0.after_handshake(Box::new(move |greeted| {
            to.resolve(greeted.map(|value| ProgramResponse { value, generation: 0 }).map_err(ProgramFault::Outage));
        }));
        ticket
    }
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse {
        self.0.submit(&request, None)
    }
    fn send_in_session(
        &self,
        seat: SessionLocation,
        op: &str,
        mut body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        let core = &self.0;
        let life = match (op, seat.generation) {
            ("close", _) => {
                let life = lock(&core.sessions).remove(&seat.session);
                life.into_iter().for_each(|life| core.close(life));
                return Ok(pending_response().0);
            }
            ("start", _) => core.begin(seat.session),
            ("fork", Some(from)) => {
                body.insert("from".into(), core.name(from));
                core.begin(seat.session)
            }
            (_, Some(life)) => life,
            (_, None) => return Err(Error::bug(format!("`{op}` of a session that was not begun"))),
        };
        body.insert("session".into(), core.name(life));
        Ok(core.submit(&ProgramRequest::new(op, &body)?, Some(life)))
    }
}

impl CustomCodeOptions for ServiceOptions {
    const KIND: &'static str = "http";
    fn problems(&self) -> Vec<OptionProblem> {
        self.all_problems()
    }
    fn open(&self, hello: Hello<'_>, secrets: &Secrets, _: &ProgramLog) -> Result<Arc<dyn ProgramService>> {
        Ok(Arc::new(ServiceClient::new(self, hello, secrets)?))
    }
}

impl Drop for ServiceClient {
    fn drop(&mut self) {
        let (left, heard) = &self.0.closing;
        // A service that does not answer drops its sessions by itself.
        drop(heard.wait_timeout_while(lock(left), CLOSE_TIMEOUT, |left| *left > 0));
    }
}
