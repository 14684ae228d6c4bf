//! The processes of one program from the requester's side.

use crate::folder::ProgramFolder;
use crate::options::ProgramOptions;
use crate::output::ProgramLog;
use crate::program::set_nonblocking;
use crate::protocol::{JsonProtocol, ProgramProtocol};
use crate::queue::{ProgramQueue, QueuedRequest};
use crate::response::PendingProgramResponse;
use crate::service::{ProgramService, SessionLocation};
use crate::wire::{self, ProgramRequest};
use crate::worker::{ProgramSettings, ProgramWorker};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
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
pub struct WorkerPool {
    queue: Arc<ProgramQueue>,
    threads: Vec<JoinHandle<()>>,
    place: String,
}

impl WorkerPool {
    /// Copies the program's files and starts the threads that will own its processes.
    ///
    /// Errors: invalid (options, missing files), retryable (no threads).
    pub fn start(options: &ProgramOptions, hello: Hello<'_>, log: ProgramLog) -> Result<Arc<Self>> {
        let Hello { role, name, seed } = hello;
        let part = format!("{role} `{}`", if name.is_empty() { "process" } else { name });
        let language = JsonProtocol { hello: wire::hello_line(role, name, &options.options, seed) };
        Self::start_with_protocol(options, &part, Arc::new(language), log)
    }
    /// Starts processes like [`WorkerPool::start`], for a program of another protocol; `part` is its name in messages.
    pub fn start_with_protocol(
        options: &ProgramOptions,
        part: &str,
        language: Arc<dyn ProgramProtocol>,
        log: ProgramLog,
    ) -> Result<Arc<Self>> {
        let place = format!("{part} ({})", options.shown());
        if let Some(problem) = options.problems().into_iter().next() {
            let error = Error::invalid(problem.message).at(problem.pointer.trim_start_matches('/')).at(place);
            return Err(problem.help.into_iter().fold(error, Error::help));
        }
        let setting = Arc::new(ProgramSettings {
            folder: ProgramFolder::create(options).map_err(|e| e.at(&place))?,
            protocol: language,
            timeout: options.time()?,
            variables: options.env.clone(),
            place: place.clone(),
            log,
        });
        let failed = |e: io::Error| Error::retryable(format!("cannot start the threads of a program: {e}"));
        let (mut ears, mut wakers) = (Vec::new(), Vec::new());
        for _ in 0..options.workers {
            let (ear, waker) = io::pipe().map_err(failed)?;
            set_nonblocking(&ear).and_then(|()| set_nonblocking(&waker)).map_err(failed)?;
            ears.push(ear);
            wakers.push(waker);
        }
        let queue = Arc::new(ProgramQueue::new(wakers));
        let mut workers = Self { queue, threads: Vec::new(), place };
        for (number, ear) in ears.into_iter().enumerate() {
            let lane = ProgramWorker::new(number, Arc::clone(&workers.queue), Arc::clone(&setting), ear);
            let thread = std::thread::Builder::new().name(format!("program-{number}"));
            workers.threads.push(thread.spawn(move || lane.run()).map_err(failed)?);
        }
        Ok(Arc::new(workers))
    }
    /// Requests the end of the processes; open requests are not answered any more.
    pub fn shut_down(&self) {
        self.queue.shut_down();
    }
    /// Returns whether all processes have ended after [`WorkerPool::shut_down`].
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
    /// Sends a request to any process. `body` is a map of the keys of the operation `op`.
    pub fn call(&self, op: &str, body: &impl Serialize) -> Result<PendingProgramResponse> {
        Ok(self.send(ProgramRequest::new(op, body)?))
    }
    /// Requests the features that one process reported when it was ready, starting it if necessary.
    pub fn ready_on(&self, lane: usize) -> PendingProgramResponse {
        let (ticket, responder) = PendingProgramResponse::new();
        self.queue.put_on(lane % self.workers(), QueuedRequest::new(None, responder, None));
        ticket
    }
    /// Sends a request like [`WorkerPool::call_on`], for one that is already serialized.
    pub fn send_to(&self, lane: usize, life: Option<u64>, request: ProgramRequest) -> PendingProgramResponse {
        let (ticket, responder) = PendingProgramResponse::new();
        self.queue.put_on(lane % self.workers(), QueuedRequest::new(Some(request), responder, life));
        ticket
    }
    /// Sends a request to one process. A request that requires the state of an earlier one names the `life` of that
    /// response: once another process has replaced it, the response is [`crate::ProgramFault::ToolWorkerLoss`].
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
        self.queue.workers()
    }
    fn ready(&self) -> PendingProgramResponse {
        self.ready_on(0)
    }
    fn send(&self, request: ProgramRequest) -> PendingProgramResponse {
        let (ticket, responder) = PendingProgramResponse::new();
        self.queue.put(QueuedRequest::new(Some(request), responder, None));
        ticket
    }
    fn send_in_session(
        &self,
        seat: SessionLocation,
        op: &str,
        mut body: Map<String, Value>,
    ) -> Result<PendingProgramResponse> {
        if op == "close" && seat.generation.is_none() {
            // No process is known to have the state, and none is started for that.
            return Ok(PendingProgramResponse::new().0);
        }
        body.insert("session".into(), json!(seat.session));
        self.call_on(seat.worker, seat.generation, op, &body)
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.queue.shut_down();
        for thread in self.threads.drain(..) {
            // After a panic the process has already ended with its thread.
            let _ = thread.join();
        }
    }
}
