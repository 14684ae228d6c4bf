//! Connects to MCP servers at a URL, with the transport "streamable HTTP".
//!
//! Every message is a separate request, whose response contains one message or a stream of messages; a header names the
//! session.

use super::event_stream::{is_complete, messages};
use super::local::unsupported;
use super::options::{McpOptions, SessionKind};
use super::protocol;
use super::protocol_session::{McpProtocol, McpProtocolSession};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, Result, Secrets};
use trainyard_http::{BaseUrl, CallbackClient, HttpFault, HttpRequest, HttpResponse, RequestLimits};
use trainyard_process::{
    PendingProgramResponse, ProgramFault, ProgramLog, ProgramRequest, ProgramResponder, ProgramResponse,
    ProgramService, ProtocolEvent, SessionLocation, pending_response,
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// Maximum number of attempts of a request that may be repeated.
const ATTEMPTS: u32 = 4;
/// Maximum number of messages that a session is opened with. A list of tools has at most 100 pages.
const MAX_OPENING_MESSAGES: usize = 1_000;
/// Header that names a session.
const SESSION: &str = "mcp-session-id";
/// Number of the session that all episodes share.
const SHARED: u64 = u64::MAX;

/// Service with its sessions.
pub struct RemoteMcpServer(Arc<RemoteMcpInner>);

struct RemoteMcpInner {
    http: CallbackClient,
    protocol: Arc<McpProtocol>,
    place: String,
    kind: SessionKind,
    log: ProgramLog,
    next: AtomicU64,
    sessions: Mutex<BTreeMap<u64, RemoteMcpSession>>,
}

/// State of an open session.
#[derive(Debug, Clone, Default)]
struct RemoteMcpSession {
    headers: Vec<(&'static str, String)>,
    generation: u64,
}

/// Session that is being opened.
struct RemoteMcpHandshake {
    session: u64,
    protocol_session: McpProtocolSession,
    headers: Vec<(&'static str, String)>,
    /// Messages to send.
    lines: VecDeque<String>,
    /// Number of messages sent so far.
    sent: usize,
    ready: Option<Value>,
    responder: ProgramResponder,
}

impl RemoteMcpServer {
    /// Returns the client without sending a request. Errors: invalid, for an invalid URL or a key that the stage does
    /// not have.
    pub fn new(options: &McpOptions, protocol: Arc<McpProtocol>, secrets: &Secrets, log: ProgramLog) -> Result<Self> {
        let address = BaseUrl::exact(&options.url)?;
        let key = options.api_key.as_ref().map(|name| secrets.get(name)).transpose()?.cloned();
        let timeout = options.program().time()?;
        let limits = RequestLimits {
            requests: options.servers(),
            attempts: ATTEMPTS,
            timeout,
            response_bytes: MAX_RESPONSE_BYTES,
        };
        let place = format!("{} ({address})", McpOptions::part());
        let http = CallbackClient::open(address, key, limits).map_err(|e| e.at(&place))?;
        let (kind, next, sessions) = (options.session, AtomicU64::new(0), Mutex::default());
        Ok(Self(Arc::new(RemoteMcpInner { http, protocol, place, kind, log, next, sessions })))
    }
}

impl RemoteMcpInner {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u64, RemoteMcpSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Opens a session of the service under this number.
    fn open(self: &Arc<Self>, session: u64) -> PendingProgramResponse {
        let (pending, responder) = pending_response();
        let (protocol_session, lines) =
            (self.protocol.new_session(), VecDeque::from([protocol::initialize().to_string()]));
        self.send_next(RemoteMcpHandshake {
            session,
            protocol_session,
            headers: Vec::new(),
            lines,
            sent: 0,
            ready: None,
            responder,
        });
        pending
    }
    /// Sends the next message of an opening, then the messages that follow from its response. Resolves the responder
    /// after the last one.
    fn send_next(self: &Arc<Self>, mut opening: RemoteMcpHandshake) {
        let Some(line) = opening.lines.pop_front() else {
            let error = Error::invalid("the server did not list its tools").at(&self.place);
            let Some(value) = opening.ready else { return opening.responder.resolve(Err(ProgramFault::Outage(error))) };
            let mut sessions = self.sessions();
            let generation = sessions.get(&opening.session).map_or(1, |session| session.generation + 1);
            sessions.insert(opening.session, RemoteMcpSession { headers: opening.headers, generation });
            drop(sessions);
            return opening.responder.resolve(Ok(ProgramResponse { value, generation }));
        };
        let core = Arc::downgrade(self);
        self.http.send(post(line, &opening.headers, true), move |response| {
            let Some(core) = core.upgrade() else { return };
            match core.handle_reply(&mut opening, response) {
                Ok(()) => core.send_next(opening),
                Err(error) => opening.responder.resolve(Err(ProgramFault::Outage(error))),
            }
        });
    }
    fn handle_reply(&self, opening: &mut RemoteMcpHandshake, response: Result<HttpResponse, HttpFault>) -> Result<()> {
        let response = response.map_err(|fault| Error::from(fault).at(&self.place))?;
        let unusable = |problem: String| {
            let error = Error::invalid(format!("the server cannot be used: {problem}")).at(&self.place);
            error.help("set `url` to an MCP server with the transport `streamable HTTP`")
        };
        if let Some(session) = &response.header {
            opening.headers = vec![(SESSION, session.clone())];
        }
        for message in messages(&response.content_type, response.body.as_bytes()) {
            match opening.protocol_session.message(&message).map_err(unusable)? {
                ProtocolEvent::Ready(value) => opening.ready = Some(value),
                ProtocolEvent::Send(lines) => opening.lines.extend(lines.lines().map(str::to_string)),
                ProtocolEvent::Log(text) => (self.log)(LogLevel::Info, &text),
                ProtocolEvent::Response(..) | ProtocolEvent::Ignored => {}
            }
        }
        // Each response may contain requests of the server, whose answers are sent, too.
        opening.sent += 1;
        if opening.sent + opening.lines.len() > MAX_OPENING_MESSAGES {
            return Err(unusable("it sends requests without end while it is opened".to_string()));
        }
        let version = opening.protocol_session.version.clone();
        if !version.is_empty() && !opening.headers.iter().any(|(name, _)| *name == "mcp-protocol-version") {
            opening.headers.push(("mcp-protocol-version", version));
        }
        Ok(())
    }
    /// Sends a call in a session.
    fn call(self: &Arc<Self>, session: &RemoteMcpSession, request: &ProgramRequest) -> PendingProgramResponse {
        let (pending, responder) = pending_response();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // A request that changes a session's state must not be repeated.
        let idempotent = self.kind == SessionKind::Shared;
        let (core, generation, headers) = (Arc::downgrade(self), session.generation, session.headers.clone());
        self.http.send(post(request.line(number), &headers, idempotent), move |response| {
            let Some(core) = core.upgrade() else { return };
            responder.resolve(match response {
                Ok(response) => {
                    core.call_result(number, &headers, &response).map(|value| ProgramResponse { value, generation })
                }
                Err(fault) => Err(core.request_fault(fault)),
            });
        });
        pending
    }
    fn call_result(
        &self,
        number: u64,
        headers: &[(&'static str, String)],
        response: &HttpResponse,
    ) -> Result<Value, ProgramFault> {
        let mut protocol_session = self.protocol.new_session();
        for message in messages(&response.content_type, response.body.as_bytes()) {
            match protocol_session.message(&message) {
                Ok(ProtocolEvent::Response(id, result)) if id == number => {
                    return result.map_err(ProgramFault::Exception);
                }
                // Requests of the server during a call get responses, although the server may have stopped waiting.
                Ok(ProtocolEvent::Send(lines)) => {
                    lines.lines().for_each(|line| self.http.send(post(line.to_string(), headers, false), drop));
                }
                Ok(ProtocolEvent::Log(text)) => (self.log)(LogLevel::Info, &text),
                Ok(_) => {}
                Err(problem) => {
                    return Err(ProgramFault::Outage(Error::data(format!("the server {problem}")).at(&self.place)));
                }
            }
        }
        let error = Error::retryable("the server did not answer a call").at(&self.place);
        Err(if self.kind == SessionKind::Episode { ProgramFault::Lost(error) } else { ProgramFault::Outage(error) })
    }
    fn request_fault(&self, fault: HttpFault) -> ProgramFault {
        let status = fault.status;
        let error = Error::from(fault).at(&self.place);
        match self.kind {
            // A session that the service no longer knows can be begun again, as can one whose service was unavailable.
            SessionKind::Episode if matches!(status, None | Some(404 | 500..)) => ProgramFault::Lost(error),
            _ => ProgramFault::Outage(error),
        }
    }
}

/// Returns a request with a message of a session.
fn post(line: String, headers: &[(&'static str, String)], idempotent: bool) -> HttpRequest {
    let accept = "application/json, text/event-stream";
    let headers = headers.to_vec();
    HttpRequest {
        headers,
        accept,
        response_header: Some(SESSION),
        idempotent,
        is_complete: Some(is_complete),
        ..HttpRequest::json(line.trim().to_string())
    }
}

impl ProgramService for RemoteMcpServer {
    fn place(&self) -> &str {
        &self.0.place
    }
    /// Opens the session that all episodes share. With a session for each episode, it only lists the tools, and the
    /// client does not close it.
    fn ready(&self) -> PendingProgramResponse {
        self.0.open(SHARED)
    }
    /// Returns a response that fails, because the service supports no requests outside of sessions.
    fn send(&self, _: ProgramRequest) -> PendingProgramResponse {
        pending_response().0
    }
    fn send_in_session(
        &self,
        location: SessionLocation,
        op: &str,
        body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        let session = if self.0.kind == SessionKind::Shared { SHARED } else { location.session };
        match op {
            "start" => Ok(self.0.open(session)),
            "close" => {
                let open = self.0.sessions().remove(&session);
                if let Some(open) = open {
                    self.0
                        .http
                        .send(HttpRequest { is_delete: true, ..post(String::new(), &open.headers, false) }, drop);
                }
                Ok(pending_response().0)
            }
            "call" => {
                let request = super::local::call(|name| self.0.protocol.listing.server_name(name).to_string(), &body)?;
                let open = self.0.sessions().get(&session).cloned();
                let open = open.ok_or_else(|| Error::bug("a call of a session that was not started"))?;
                Ok(self.0.call(&open, &request))
            }
            other => Err(unsupported(other)),
        }
    }
}
