//! Runs MCP servers that are programs on this machine.

use super::options::McpOptions;
use super::protocol;
use super::protocol_session::McpProtocol;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_process::{
    PendingProgramResponse, ProgramFault, ProgramLog, ProgramOptions, ProgramRequest, ProgramResponder, ProgramService,
    SessionLocation, WorkerPool, pending_response,
};

/// Maximum time for which an episode waits for a server.
const SERVER_WAIT: Duration = Duration::from_secs(600);
/// Interval at which waiting sessions are checked for a timeout.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the request `tools/call` for the body of an operation `call`; `server_name` maps the name of a tool to the
/// server's name. Errors: bug, if the body has no tool or arguments.
pub fn call(server_name: impl Fn(&str) -> String, body: &Map<String, Value>) -> Result<ProgramRequest> {
    let (Some(Value::String(tool)), Some(arguments)) = (body.get("tool"), body.get("arguments")) else {
        return Err(Error::bug("a call without a tool"));
    };
    ProgramRequest::plain(&protocol::call(&server_name(tool), arguments))
}

/// Returns the error for an unsupported operation.
pub fn unsupported(op: &str) -> Error {
    Error::bug(format!("an MCP server does not support the operation `{op}`"))
}

/// Servers shared by all episodes.
pub struct SharedMcpServers {
    workers: Arc<WorkerPool>,
    protocol: Arc<McpProtocol>,
}

impl SharedMcpServers {
    /// Returns the servers. Their processes start when they are needed. Errors: those of
    /// [`WorkerPool::start_with_protocol`].
    pub fn new(options: &McpOptions, protocol: Arc<McpProtocol>, log: ProgramLog) -> Result<Self> {
        let workers = WorkerPool::start_with_protocol(&options.program(), McpOptions::part(), protocol.clone(), log)?;
        Ok(Self { workers, protocol })
    }
}

impl ProgramService for SharedMcpServers {
    fn place(&self) -> &str {
        self.workers.place()
    }
    fn ready(&self) -> PendingProgramResponse {
        self.workers.ready()
    }
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse {
        self.workers.send(request)
    }
    /// Sends the call to any server, because the servers are stateless.
    fn send_in_session(
        &self,
        _: SessionLocation,
        op: &str,
        body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        match op {
            "call" => Ok(self.send(call(|name| self.protocol.listing.server_name(name).to_string(), &body)?)),
            other => Err(unsupported(other)),
        }
    }
}

pub struct EpisodeMcpServers {
    state: Arc<Mutex<EpisodeMcpState>>,
    protocol: Arc<McpProtocol>,
    place: String,
    /// Thread that fails sessions that have waited too long. It ends when this is dropped.
    watch: Option<std::thread::JoinHandle<()>>,
}

struct EpisodeMcpState {
    program: ProgramOptions,
    protocol: Arc<McpProtocol>,
    log: ProgramLog,
    max_servers: usize,
    clock: SystemClock,
    /// Servers by session.
    running: BTreeMap<u64, Arc<WorkerPool>>,
    /// Server without a session, which lists the tools. The next session takes it.
    spare: Option<Arc<WorkerPool>>,
    /// Sessions without a server, the times at which they began to wait, and their responders.
    waiting: VecDeque<(u64, Duration, ProgramResponder)>,
    /// Servers that are ending.
    ending: Vec<Arc<WorkerPool>>,
    shut: bool,
}

impl EpisodeMcpServers {
    /// Returns the servers. Their processes start when they are needed. Errors: those of
    /// [`WorkerPool::start_with_protocol`].
    pub fn new(options: &McpOptions, protocol: Arc<McpProtocol>, log: ProgramLog) -> Result<Self> {
        let program = options.program();
        let first = WorkerPool::start_with_protocol(&program, McpOptions::part(), protocol.clone(), log.clone())?;
        let place = first.place().to_string();
        let state = Arc::new(Mutex::new(EpisodeMcpState {
            program,
            protocol: protocol.clone(),
            log,
            max_servers: options.servers(),
            clock: SystemClock::new(),
            running: BTreeMap::new(),
            spare: Some(first),
            waiting: VecDeque::new(),
            ending: Vec::new(),
            shut: false,
        }));
        let watched = Arc::clone(&state);
        let watch = std::thread::Builder::new().name("mcp".to_string()).spawn(move || {
            while !lock(&watched).reap() {
                std::thread::park_timeout(CHECK_INTERVAL);
            }
        });
        let watch = watch.map_err(|e| Error::retryable(format!("cannot start a thread: {e}")))?;
        Ok(Self { state, protocol, place, watch: Some(watch) })
    }
}

fn lock(state: &Mutex<EpisodeMcpState>) -> MutexGuard<'_, EpisodeMcpState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards a response to another responder in a separate thread, because a start has no time limit.
fn forward(pending: PendingProgramResponse, responder: ProgramResponder) -> Result<()> {
    let thread = std::thread::Builder::new().name("mcp-start".to_string());
    thread
        .spawn(move || responder.resolve(pending.answer()))
        .map(drop)
        .map_err(|e| Error::retryable(format!("cannot start a thread: {e}")))
}

impl EpisodeMcpState {
    /// Starts the server of a session and returns its pending `ready`. If all servers are in use, the session waits for
    /// one.
    fn open(&mut self, session: u64) -> Result<PendingProgramResponse> {
        // A session that begins again gets an empty folder, not the files of its last server.
        if let Some(old) = self.running.remove(&session) {
            old.shut_down();
            self.ending.push(old);
            return self.start(session);
        }
        if self.running.len() >= self.max_servers {
            let (pending, responder) = pending_response();
            self.waiting.push_back((session, self.clock.monotonic(), responder));
            return Ok(pending);
        }
        self.start(session)
    }
    fn start(&mut self, session: u64) -> Result<PendingProgramResponse> {
        let server = match self.spare.take() {
            Some(spare) => spare,
            None => WorkerPool::start_with_protocol(
                &self.program,
                McpOptions::part(),
                self.protocol.clone(),
                self.log.clone(),
            )?,
        };
        let pending = server.ready();
        self.running.insert(session, server);
        Ok(pending)
    }
    fn close(&mut self, session: u64) {
        self.waiting.retain(|(waiting, ..)| *waiting != session);
        if let Some(server) = self.running.remove(&session) {
            server.shut_down();
            self.ending.push(server);
        }
        while self.running.len() < self.max_servers
            && let Some((next, _, responder)) = self.waiting.pop_front()
        {
            match self.start(next).and_then(|pending| forward(pending, responder)) {
                Ok(()) => {}
                // The dropped responder reports that no response will arrive.
                Err(error) => (self.log)(trainyard_core::attempt::LogLevel::Warn, &error.message),
            }
        }
    }
    /// Removes ended servers and fails sessions that have waited too long. Returns whether the servers were shut down,
    /// so that the watch can end.
    fn reap(&mut self) -> bool {
        self.ending.retain(|server| !server.has_ended());
        let now = self.clock.monotonic();
        let late = |since: &Duration| now.saturating_sub(*since) > SERVER_WAIT;
        while self.waiting.front().is_some_and(|(_, since, _)| late(since)) {
            if let Some((.., responder)) = self.waiting.pop_front() {
                let message =
                    format!("all {} servers were in use for {} minutes", self.max_servers, SERVER_WAIT.as_secs() / 60);
                let error = Error::retryable(message).at(McpOptions::part());
                responder
                    .resolve(Err(ProgramFault::Outage(error.help("raise `servers`, or run fewer episodes at a time"))));
            }
        }
        self.shut
    }
}

impl ProgramService for EpisodeMcpServers {
    fn place(&self) -> &str {
        &self.place
    }
    fn ready(&self) -> PendingProgramResponse {
        let state = lock(&self.state);
        let first = state.spare.as_ref().or_else(|| state.running.values().next());
        first.map_or_else(|| pending_response().0, |server| server.ready())
    }
    /// Returns a response that fails, because servers of episodes support no requests outside of sessions.
    fn send(&self, _: ProgramRequest) -> PendingProgramResponse {
        pending_response().0
    }
    fn send_in_session(
        &self,
        location: SessionLocation,
        op: &str,
        body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        let mut state = lock(&self.state);
        match op {
            "start" => state.open(location.session),
            "close" => {
                state.close(location.session);
                Ok(pending_response().0)
            }
            "call" => {
                let request = call(|name| self.protocol.listing.server_name(name).to_string(), &body)?;
                let server = state.running.get(&location.session);
                let server = server.ok_or_else(|| Error::bug("a call of a session that was not started"))?;
                Ok(server.send_to(0, location.generation, request))
            }
            other => Err(unsupported(other)),
        }
    }
}

impl Drop for EpisodeMcpServers {
    fn drop(&mut self) {
        let (servers, ending) = {
            let mut state = lock(&self.state);
            state.shut = true;
            state.waiting.clear();
            let spare = state.spare.take();
            (
                std::mem::take(&mut state.running).into_values().chain(spare).collect::<Vec<_>>(),
                std::mem::take(&mut state.ending),
            )
        };
        servers.iter().for_each(|server| server.shut_down());
        drop((servers, ending));
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            let _ = watch.join();
        }
    }
}
