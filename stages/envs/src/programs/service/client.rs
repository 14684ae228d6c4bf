//! Implements the client of a service. Every protocol line is a separate request, whose response is a line.

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

/// Maximum wait, when the client is dropped, until the service has received the ends of sessions.
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
    /// Generation of each session that the service may know.
    sessions: Mutex<BTreeMap<u64, u64>>,
    /// Number of sessions whose end the service has not acknowledged.
    closing: (Mutex<usize>, Condvar),
}

impl ServiceClient {
    /// Returns the client without sending a request. Errors: invalid, for invalid options or a secret that the stage
    /// does not have.
    pub fn new(options: &ServiceOptions, about_part: Hello<'_>, secrets: &Secrets) -> Result<Self> {
        let Hello { role, name, seed } = about_part;
        let part = format!("{role} `{}`", if name.is_empty() { ServiceOptions::KIND } else { name });
        let open = || {
            let (address, limits) = (options.address()?, options.limits()?);
            let shown = address.to_string();
            Ok((CallbackClient::open(address, options.credentials(secrets)?, limits)?, shown))
        };
        let (http, address) = open().map_err(|e: Error| e.at(&part))?;
        // The name must differ from that of any other client on any host. No result depends on the name.
        let client = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(Self(Arc::new(ServiceClientInner {
            http,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a request whose response is one JSON value.
fn post(line: &str, idempotent: bool) -> HttpRequest {
    HttpRequest { idempotent, is_json: true, ..HttpRequest::json(line.trim_end().to_string()) }
}

impl ServiceClientInner {
    /// Calls `callback` with the result of the handshake, immediately if it is complete. Starts the handshake if no
    /// other request has.
    fn after_handshake(self: &Arc<Self>, callback: HandshakeCallback) {
        let step = lock(&self.handshake).enter(callback);
        match step {
            HandshakeStep::Proceed(callback, ready) => callback(Ok(ready)),
            HandshakeStep::Start => self.start_handshake(),
            HandshakeStep::Wait => {}
        }
    }
    fn start_handshake(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.http.send(post(&self.hello, true), move |response| {
            let Some(core) = core.upgrade() else { return };
            let result = core.handshake_result(response);
            let waiting = lock(&core.handshake).end(&result);
            waiting.into_iter().for_each(|callback| callback(result.clone()));
        });
    }
    fn handshake_result(&self, response: Result<HttpResponse, HttpFault>) -> HandshakeResult {
        let response = response.map_err(|fault| Error::from(fault).at(&self.part))?;
        parse_ready(response.body.trim().as_bytes()).map_err(|problem| {
            let error = Error::invalid(format!("the service cannot be used: {problem}")).at(&self.place);
            error.help("check the URL; the service answers the request `hello` of the protocol (docs/custom-code.md)")
        })
    }
    /// Sends a request once the handshake is complete. `generation` is that of the session to which the request
    /// belongs, if any.
    fn submit(self: &Arc<Self>, request: &ProgramRequest, generation: Option<u64>) -> PendingProgramResponse {
        let (pending, responder) = pending_response();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let line = request.line_with(number, &self.request_fields);
        let core = Arc::downgrade(self);
        self.after_handshake(Box::new(move |result| match (result, core.upgrade()) {
            (Ok(ready), Some(core)) => {
                // A request that changes a session's state must not be repeated.
                let idempotent = generation.is_none() || ready["repeats"] == json!(true);
                core.send(number, post(&line, idempotent), generation, responder);
            }
            (Err(error), _) => responder.resolve(Err(ProgramFault::Outage(error))),
            (Ok(_), None) => {}
        }));
        pending
    }
    fn send(self: &Arc<Self>, number: u64, post: HttpRequest, generation: Option<u64>, responder: ProgramResponder) {
        let core = Arc::downgrade(self);
        self.http.send(post, move |response| {
            if let Some(core) = core.upgrade() {
                responder.resolve(core.handle_reply(number, generation, response));
            }
        });
    }
    fn handle_reply(
        &self,
        number: u64,
        generation: Option<u64>,
        response: Result<HttpResponse, HttpFault>,
    ) -> ProgramResult {
        let response = response.map_err(|fault| self.request_fault(fault, generation.is_some()))?;
        let wrong = |problem: String| {
            let error = Error::data(format!("the service {problem}")).at(&self.place);
            ProgramFault::Outage(
                error.help("a request is answered with `id` and `result` or `error` (docs/custom-code.md)"),
            )
        };
        let (id, result) = parse_response(response.body.trim().as_bytes()).map_err(wrong)?;
        if id != number {
            return Err(wrong(format!("answered request {id} instead of request {number}")));
        }
        result
            .map(|value| ProgramResponse { value, generation: generation.unwrap_or(0) })
            .map_err(ProgramFault::Exception)
    }
    /// Returns the fault of a request without a response. The fault is `Lost`, so that the session is started again, if
    /// the service no longer knows the session or the request failed for a retryable reason other than its time limit
    /// or too many requests.
    fn request_fault(&self, fault: HttpFault, of_session: bool) -> ProgramFault {
        let HttpFault { status, delivery, .. } = fault;
        let error = Error::from(fault).at(&self.part);
        match status {
            _ if !of_session => ProgramFault::Outage(error),
            Some(410) => {
                let lost = Error::retryable("the service no longer knows this session").at(&self.place);
                ProgramFault::Lost(lost.caused_by(&error))
            }
            _ if delivery == DeliveryStatus::TimedOut => ProgramFault::TimedOut(error),
            Some(429) => ProgramFault::Outage(error),
            _ if error.kind == ErrorKind::Retryable => ProgramFault::Lost(error),
            _ => ProgramFault::Outage(error),
        }
    }
    /// Returns the name of a session's generation in requests to the service.
    fn name(&self, generation: u64) -> Value {
        json!(format!("{}-{generation}", self.client))
    }
    /// Begins a new generation of a session, notifies the service of the end of the previous one, and returns the
    /// number of the new one.
    fn begin(self: &Arc<Self>, session: u64) -> u64 {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let previous = lock(&self.sessions).insert(session, generation);
        previous.into_iter().for_each(|generation| self.close(generation));
        generation
    }
    /// Notifies the service that a session is over, without waiting for the response. Dropping the client waits for it.
    fn close(self: &Arc<Self>, generation: u64) {
        let body = Map::from_iter([("session".to_string(), self.name(generation))]);
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
        let (pending, responder) = pending_response();
        self.0.after_handshake(Box::new(move |result| {
            responder
                .resolve(result.map(|value| ProgramResponse { value, generation: 0 }).map_err(ProgramFault::Outage));
        }));
        pending
    }
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse {
        self.0.submit(&request, None)
    }
    fn send_in_session(
        &self,
        location: SessionLocation,
        op: &str,
        mut body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        let core = &self.0;
        let generation = match (op, location.generation) {
            ("close", _) => {
                let generation = lock(&core.sessions).remove(&location.session);
                generation.into_iter().for_each(|generation| core.close(generation));
                return Ok(pending_response().0);
            }
            ("start", _) => core.begin(location.session),
            ("fork", Some(from)) => {
                body.insert("from".into(), core.name(from));
                core.begin(location.session)
            }
            (_, Some(generation)) => generation,
            (_, None) => return Err(Error::bug(format!("`{op}` of a session that was not started"))),
        };
        body.insert("session".into(), core.name(generation));
        Ok(core.submit(&ProgramRequest::new(op, &body)?, Some(generation)))
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
        let (remaining, acknowledged) = &self.0.closing;
        // A service that does not respond must drop its sessions by itself.
        drop(acknowledged.wait_timeout_while(lock(remaining), CLOSE_TIMEOUT, |remaining| *remaining > 0));
    }
}
