//! Runs the processes of one program, and sends requests to them.

use crate::folder::ProgramFolder;
use crate::lines::{LineJob, LineSettings, LineWire};
use crate::options::ProgramOptions;
use crate::output::ProgramLog;
use crate::protocol::{JsonProtocol, ProgramProtocol};
use crate::response::{PendingProgramResponse, pending_response};
use crate::service::{ProgramService, SessionLocation};
use crate::supervisor::{SupervisedProgram, Supervisor};
use crate::wire::{self, ProgramRequest};
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

/// Processes of one program. They start with the first request and end when the pool is dropped.
pub struct WorkerPool {
    supervisor: Supervisor<LineJob>,
    place: String,
}

impl WorkerPool {
    /// Copies the program's files and starts the threads that will own its processes.
    ///
    /// Errors: invalid (options, missing files), retryable (no threads).
    pub fn start(options: &ProgramOptions, hello: Hello<'_>, log: ProgramLog) -> Result<Arc<Self>> {
        let Hello { role, name, seed } = hello;
        let part = format!("{role} `{}`", if name.is_empty() { "process" } else { name });
        let protocol = JsonProtocol { hello: wire::hello_line(role, name, &options.options, seed) };
        Self::start_with_protocol(options, &part, Arc::new(protocol), log)
    }
    /// Starts processes like [`WorkerPool::start`], for a program of another protocol. `part` is the name of the
    /// program in messages.
    pub fn start_with_protocol(
        options: &ProgramOptions,
        part: &str,
        protocol: Arc<dyn ProgramProtocol>,
        log: ProgramLog,
    ) -> Result<Arc<Self>> {
        let place = format!("{part} ({})", options.shown());
        if let Some(problem) = options.problems().into_iter().next() {
            let error = Error::invalid(problem.message).at(problem.pointer.trim_start_matches('/')).at(place);
            return Err(problem.help.into_iter().fold(error, Error::help));
        }
        let settings = Arc::new(LineSettings {
            folder: ProgramFolder::create(options).map_err(|e| e.at(&place))?,
            protocol,
            timeout: options.time()?,
            variables: options.env.clone(),
            place: place.clone(),
            log,
        });
        let supervised = SupervisedProgram {
            place: place.clone(),
            help: settings.protocol.help(),
            start_help: "give it more time by the option `start`, such as `start: 10m`",
            timeout: settings.timeout,
            start: options.start_time()?,
            log: settings.log.clone(),
        };
        let lanes: Vec<LineWire> = (0..options.workers).map(|_| LineWire::new(Arc::clone(&settings))).collect();
        let supervisor = Supervisor::start("program", supervised, lanes)
            .map_err(|(_, e)| Error::retryable(format!("cannot start the threads of a program: {e}")))?;
        Ok(Arc::new(Self { supervisor, place }))
    }
    /// Requests the end of the processes without waiting. Open requests fail.
    pub fn shut_down(&self) {
        self.supervisor.shut_down();
    }
    /// Returns whether all processes have ended after [`WorkerPool::shut_down`].
    pub fn has_ended(&self) -> bool {
        self.supervisor.has_ended()
    }
    /// Sends the operation `op` to any process; `body` is a map of its keys.
    pub fn call(&self, op: &str, body: &impl Serialize) -> Result<PendingProgramResponse> {
        Ok(self.send(ProgramRequest::new(op, body)?))
    }
    /// Requests the features that the process of `lane` reported when it was ready. Starts the process if necessary.
    pub fn ready_on(&self, lane: usize) -> PendingProgramResponse {
        let (response, responder) = pending_response();
        self.supervisor.push_to(lane % self.workers(), LineJob { request: None, responder, life: None });
        response
    }
    /// Sends an already serialized request like [`WorkerPool::call_on`].
    pub fn send_to(&self, lane: usize, life: Option<u64>, request: ProgramRequest) -> PendingProgramResponse {
        let (response, responder) = pending_response();
        self.supervisor.push_to(lane % self.workers(), LineJob { request: Some(request), responder, life });
        response
    }
    /// Sends the operation `op` to the process of one lane. A request that requires the state of an earlier one passes
    /// the `generation` of that response as `life`: if another process has replaced that process, the response is
    /// [`crate::ProgramFault::Lost`].
    pub fn call_on(
        &self,
        lane: usize,
        life: Option<u64>,
        op: &str,
        body: &impl Serialize,
    ) -> Result<PendingProgramResponse> {
        Ok(self.send_to(lane, life, ProgramRequest::new(op, body)?))
    }
}

impl ProgramService for WorkerPool {
    fn place(&self) -> &str {
        &self.place
    }
    fn workers(&self) -> usize {
        self.supervisor.workers()
    }
    fn ready(&self) -> PendingProgramResponse {
        self.ready_on(0)
    }
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse {
        let (response, responder) = pending_response();
        self.supervisor.push(LineJob { request: Some(request), responder, life: None });
        response
    }
    fn send_in_session(
        &self,
        session: SessionLocation,
        op: &str,
        mut body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        if op == "close" && session.generation.is_none() {
            // No earlier response names the process of the state, and no new process could have it.
            return Ok(pending_response().0);
        }
        body.insert("session".into(), json!(session.session));
        self.call_on(session.worker, session.generation, op, &body)
    }
}
