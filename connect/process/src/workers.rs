//! The processes of one program from the requester's side.

use crate::folder::Folder;
use crate::language::{Language, Own};
use crate::lines::{Job, Lines, Setting};
use crate::options::ProgramOptions;
use crate::peer::{Peer, Seat};
use crate::supervisor::{Described, Supervisor};
use crate::ticket::{Ticket, claim};
use crate::wire::{self, Request};
use crate::words::Log;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Purpose of a program.
#[derive(Debug, Clone, Copy)]
pub struct Hello<'a> {
    /// Role: `reward`, `rule`, `verifier`, `tool`, `environment`.
    pub role: &'a str,
    /// Name of the part in records; may be empty.
    pub name: &'a str,
    /// Seed of all random draws in the program.
    pub seed: u64,
}

/// Processes of one program. They start with the first request and end when this is dropped.
pub struct Workers {
    supervisor: Supervisor<Job>,
    place: String,
}

impl Workers {
    /// Copies the program's files and starts the threads that will own its processes.
    ///
    /// Errors: invalid (options, missing files), retryable (no threads).
    pub fn start(options: &ProgramOptions, hello: Hello<'_>, log: Log) -> Result<Arc<Self>> {
        let Hello { role, name, seed } = hello;
        let part = format!("{role} `{}`", if name.is_empty() { "process" } else { name });
        let language = Own { hello: wire::hello(role, name, &options.options, seed) };
        Self::speak(options, &part, Arc::new(language), log)
    }
    /// Starts processes like [`Workers::start`], for a program of another protocol; `part` is its name in messages.
    pub fn speak(options: &ProgramOptions, part: &str, language: Arc<dyn Language>, log: Log) -> Result<Arc<Self>> {
        let place = format!("{part} ({})", options.shown());
        if let Some(problem) = options.problems().into_iter().next() {
            let error = Error::invalid(problem.message).at(problem.pointer.trim_start_matches('/')).at(place);
            return Err(problem.help.into_iter().fold(error, Error::help));
        }
        let setting = Arc::new(Setting {
            folder: Folder::lay_out(options).map_err(|e| e.at(&place))?,
            language,
            timeout: options.time()?,
            variables: options.env.clone(),
            place: place.clone(),
            log,
        });
        let described = Described {
            place: place.clone(),
            help: setting.language.help(),
            timeout: setting.timeout,
            log: setting.log.clone(),
        };
        let lanes: Vec<Lines> = (0..options.workers).map(|_| Lines::new(Arc::clone(&setting))).collect();
        let supervisor = Supervisor::start("program", described, lanes)
            .map_err(|(_, e)| Error::retryable(format!("cannot start the threads of a program: {e}")))?;
        Ok(Arc::new(Self { supervisor, place }))
    }
    /// Requests the end of the processes; open requests are not answered any more.
    pub fn shut(&self) {
        self.supervisor.shut();
    }
    /// Returns whether all processes have ended after [`Workers::shut`].
    pub fn has_ended(&self) -> bool {
        self.supervisor.has_ended()
    }
    /// Sends a request to any process. `body` is a map of the keys of the operation `op`.
    pub fn ask(&self, op: &str, body: &impl Serialize) -> Result<Ticket> {
        Ok(self.put(Request::new(op, body)?))
    }
    /// Requests the features that one process reported when it was ready, starting it if necessary.
    pub fn ready_on(&self, lane: usize) -> Ticket {
        let (ticket, responder) = claim();
        self.supervisor.put_on(lane % self.lanes(), Job { request: None, responder, life: None });
        ticket
    }
    /// Sends a request like [`Workers::ask_on`], for one that is already serialized.
    pub fn put_on(&self, lane: usize, life: Option<u64>, request: Request) -> Ticket {
        let (ticket, responder) = claim();
        self.supervisor.put_on(lane % self.lanes(), Job { request: Some(request), responder, life });
        ticket
    }
    /// Sends a request to one process. A request that requires the state of an earlier one names the `life` of that
    /// response: once another process has replaced it, the response is [`crate::Fault::Lost`].
    pub fn ask_on(&self, lane: usize, life: Option<u64>, op: &str, body: &impl Serialize) -> Result<Ticket> {
        Ok(self.put_on(lane, life, Request::new(op, body)?))
    }
}

impl Peer for Workers {
    fn place(&self) -> &str {
        &self.place
    }
    fn lanes(&self) -> usize {
        self.supervisor.lanes()
    }
    fn ready(&self) -> Ticket {
        self.ready_on(0)
    }
    fn put(&self, request: Request) -> Ticket {
        let (ticket, responder) = claim();
        self.supervisor.put(Job { request: Some(request), responder, life: None });
        ticket
    }
    fn put_in(&self, seat: Seat, op: &str, mut body: Map<String, Value>) -> Result<Ticket> {
        if op == "close" && seat.life.is_none() {
            // No process is known to have the state, and none is started for that.
            return Ok(claim().0);
        }
        body.insert("session".into(), json!(seat.session));
        self.ask_on(seat.lane, seat.life, op, &body)
    }
}
