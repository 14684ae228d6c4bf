//! Servers that are programs of this machine.

use super::language::Mcp;
use super::options::McpOptions;
use super::protocol;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Clock as _, Error, Result, SystemClock};
use trainyard_process::{Fault, Log, Peer, ProgramOptions, Request, Responder, Seat, Ticket, Workers, claim};

/// How long an episode waits for a server.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval at which waiting sessions are checked for a timeout.
const LOOK: Duration = Duration::from_secs(1);

/// Returns a request for a call, from the body of an operation `call`. Errors: bug.
pub fn call(own_name: impl Fn(&str) -> String, body: &Map<String, Value>) -> Result<Request> {
    let (Some(Value::String(tool)), Some(arguments)) = (body.get("tool"), body.get("arguments")) else {
        return Err(Error::bug("a call names no tool"));
    };
    Request::plain(&protocol::call(&own_name(tool), arguments))
}

/// Returns the error for an operation that this peer does not support.
pub fn never(op: &str) -> Error {
    Error::bug(format!("a server of tools was asked for `{op}`"))
}

/// Servers shared by all episodes.
pub struct Shared {
    workers: Arc<Workers>,
    language: Arc<Mcp>,
}

impl Shared {
    /// Returns the servers without starting any. Errors: those of [`Workers::speak`].
    pub fn new(options: &McpOptions, language: Arc<Mcp>, log: Log) -> Result<Self> {
        let workers = Workers::speak(&options.program(), McpOptions::part(), language.clone(), log)?;
        Ok(Self { workers, language })
    }
}

impl Peer for Shared {
    fn place(&self) -> &str {
        self.workers.place()
    }
    fn ready(&self) -> Ticket {
        self.workers.ready()
    }
    fn put(&self, request: Request) -> Ticket {
        self.workers.put(request)
    }
    /// Any server answers, because the servers are stateless.
    fn put_in(&self, _: Seat, op: &str, body: Map<String, Value>) -> Result<Ticket> {
        match op {
            "call" => Ok(self.put(call(|name| self.language.listing.own_name(name).to_string(), &body)?)),
            other => Err(never(other)),
        }
    }
}

pub struct PerSession {
    state: Arc<Mutex<State>>,
    language: Arc<Mcp>,
    place: String,
    /// Thread that fails sessions that have waited too long; ends when this is dropped.
    watch: Option<std::thread::JoinHandle<()>>,
}

struct State {
    program: ProgramOptions,
    language: Arc<Mcp>,
    log: Log,
    most: usize,
    clock: SystemClock,
    /// Servers by session.
    running: BTreeMap<u64, Arc<Workers>>,
    /// Server that was started early, to list its tools.
    spare: Option<Arc<Workers>>,
    /// Sessions without a server, the time since when, and the waiting responders.
    waiting: VecDeque<(u64, Duration, Responder)>,
    /// Servers that are ending.
    ending: Vec<Arc<Workers>>,
    shut: bool,
}

impl PerSession {
    /// Returns the servers without starting any. Errors: those of [`Workers::speak`].
    pub fn new(options: &McpOptions, language: Arc<Mcp>, log: Log) -> Result<Self> {
        let program = options.program();
        let first = Workers::speak(&program, McpOptions::part(), language.clone(), log.clone())?;
        let place = first.place().to_string();
        let state = Arc::new(Mutex::new(State {
            program,
            language: language.clone(),
            log,
            most: options.servers(),
            clock: SystemClock::new(),
            running: BTreeMap::new(),
            spare: Some(first),
            waiting: VecDeque::new(),
            ending: Vec::new(),
            shut: false,
        }));
        let watched = Arc::clone(&state);
        let watch = std::thread::Builder::new().name("mcp".to_string()).spawn(move || {
            while !lock(&watched).tend() {
                std::thread::park_timeout(LOOK);
            }
        });
        let watch = watch.map_err(|e| Error::retryable(format!("cannot start a thread: {e}")))?;
        Ok(Self { state, language, place, watch: Some(watch) })
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards the answer of one ticket to another claim, in a separate thread, because a start has no time limit.
fn forward(from: Ticket, to: Responder) -> Result<()> {
    let thread = std::thread::Builder::new().name("mcp-start".to_string());
    thread
        .spawn(move || to.give(from.answer()))
        .map(drop)
        .map_err(|e| Error::retryable(format!("cannot start a thread: {e}")))
}

impl State {
    /// Returns a ticket for the server of a session, which starts as soon as possible.
    fn open(&mut self, session: u64) -> Result<Ticket> {
        // A session that begins again gets an empty folder, not the files of its last server.
        if let Some(old) = self.running.remove(&session) {
            old.shut();
            self.ending.push(old);
            return self.start(session);
        }
        if self.running.len() >= self.most {
            let (ticket, responder) = claim();
            self.waiting.push_back((session, self.clock.monotonic(), responder));
            return Ok(ticket);
        }
        self.start(session)
    }
    fn start(&mut self, session: u64) -> Result<Ticket> {
        let server = match self.spare.take() {
            Some(spare) => spare,
            None => Workers::speak(&self.program, McpOptions::part(), self.language.clone(), self.log.clone())?,
        };
        let ticket = server.ready();
        self.running.insert(session, server);
        Ok(ticket)
    }
    fn close(&mut self, session: u64) {
        self.waiting.retain(|(waiting, ..)| *waiting != session);
        if let Some(server) = self.running.remove(&session) {
            server.shut();
            self.ending.push(server);
        }
        while self.running.len() < self.most
            && let Some((next, _, responder)) = self.waiting.pop_front()
        {
            match self.start(next).and_then(|ticket| forward(ticket, responder)) {
                Ok(()) => {}
                // The dropped responder reports that no answer will arrive.
                Err(error) => (self.log)(trainyard_core::attempt::LogLevel::Warn, &error.message),
            }
        }
    }
    /// Removes ended servers and fails sessions that have waited too long. Returns whether all are over.
    fn tend(&mut self) -> bool {
        self.ending.retain(|server| !server.has_ended());
        let now = self.clock.monotonic();
        let late = |since: &Duration| now.saturating_sub(*since) > PATIENCE;
        while self.waiting.front().is_some_and(|(_, since, _)| late(since)) {
            if let Some((.., responder)) = self.waiting.pop_front() {
                let message = format!("all {} servers were in use for {} minutes", self.most, PATIENCE.as_secs() / 60);
                let error = Error::retryable(message).at(McpOptions::part());
                responder.give(Err(Fault::Outage(error.help("raise `servers`, or run fewer episodes at a time"))));
            }
        }
        self.shut
    }
}

impl Peer for PerSession {
    fn place(&self) -> &str {
        &self.place
    }
    fn ready(&self) -> Ticket {
        let state = lock(&self.state);
        let first = state.spare.as_ref().or_else(|| state.running.values().next());
        first.map_or_else(|| claim().0, |server| server.ready())
    }
    /// Requests outside of sessions are not supported.
    fn put(&self, _: Request) -> Ticket {
        claim().0
    }
    fn put_in(&self, seat: Seat, op: &str, body: Map<String, Value>) -> Result<Ticket> {
        let mut state = lock(&self.state);
        match op {
            "start" => state.open(seat.session),
            "close" => {
                state.close(seat.session);
                Ok(claim().0)
            }
            "call" => {
                let request = call(|name| self.language.listing.own_name(name).to_string(), &body)?;
                let server = state.running.get(&seat.session);
                let server = server.ok_or_else(|| Error::bug("a call of a session that was not begun"))?;
                Ok(server.put_on(0, seat.life, request))
            }
            other => Err(never(other)),
        }
    }
}

impl Drop for PerSession {
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
        servers.iter().for_each(|server| server.shut());
        drop((servers, ending));
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            let _ = watch.join();
        }
    }
}
