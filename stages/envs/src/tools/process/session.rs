//! Keeps the session of a program, that is, the requests of one episode in order, and rebuilds it.
//!
//! The process that holds a session may exit at any time, and a fork needs a second session. In both cases the session
//! is started again and all answered requests are repeated. If the program then replies differently, the episode is an
//! infrastructure failure. There is no background work: a session advances only when a caller requests a result.

use crate::tools::program::CustomProgram;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_process::{PendingProgramResponse, ProgramException, ProgramFault, SessionLocation};

/// Number of processes that one session may lose before it fails.
const MAX_LOSSES: u32 = 2;

/// Operation whose exceptions are results, because the model may have requested the impossible.
pub const CALL: &str = "call";

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationReply {
    /// The program's result.
    Value(Value),
    /// The program raised an exception.
    Raised(ProgramException),
    /// The program raised an exception when the session began.
    StartRaised(ProgramException),
    /// The session failed, and all further replies are this one.
    Failed {
        /// Cause.
        error: Error,
        /// Whether the operation exceeded its time limit.
        late: bool,
    },
}

/// Session that closes when it and all its pending replies are dropped.
pub struct CustomSession(Arc<Mutex<CustomSessionInner>>);

/// Pending reply to one operation.
pub struct PendingReply {
    core: Arc<Mutex<CustomSessionInner>>,
    index: usize,
}

#[derive(Clone)]
struct SessionOperation {
    op: &'static str,
    body: Map<String, Value>,
    /// Name in messages.
    name: String,
}

struct CustomSessionInner {
    program: Arc<CustomProgram>,
    number: u64,
    worker: usize,
    start_fields: Map<String, Value>,
    operations: Vec<SessionOperation>,
    /// Replies to the first of the requests.
    replies: Vec<OperationReply>,
    phase: SessionPhase,
    losses: u32,
}

enum SessionPhase {
    /// No process holds the session.
    Closed,
    /// A process begins the session.
    Opening(PendingProgramResponse),
    /// The session's process copies it from another one.
    Forking(PendingProgramResponse),
    /// Answered requests are repeated.
    Repeating { generation: u64, index: usize, pending: PendingProgramResponse },
    /// No request is in progress.
    Open { generation: u64 },
    /// The first operation without a reply is in progress.
    Running { generation: u64, pending: PendingProgramResponse },
    /// All further replies are this one.
    Failed(OperationReply),
}

impl CustomSession {
    /// Returns a session whose request `start` has the fields `start_fields`. Sends no request yet.
    pub fn new(program: Arc<CustomProgram>, start_fields: Map<String, Value>) -> Self {
        let number = program.next_session();
        let worker = number as usize % program.peer.workers();
        let (operations, replies, phase) = (Vec::new(), Vec::new(), SessionPhase::Closed);
        Self(Arc::new(Mutex::new(CustomSessionInner {
            program,
            number,
            worker,
            start_fields,
            operations,
            replies,
            phase,
            losses: 0,
        })))
    }
    /// Submits an operation, which runs after all earlier ones; `name` is its name in messages.
    pub fn submit(&self, op: &'static str, body: Map<String, Value>, name: impl Into<String>) -> PendingReply {
        let mut core = lock(&self.0);
        core.operations.push(SessionOperation { op, body, name: name.into() });
        let index = core.operations.len() - 1;
        core.advance(Duration::ZERO);
        drop(core);
        PendingReply { core: Arc::clone(&self.0), index }
    }
    /// Returns the replies that have arrived, starting with number `first`.
    pub fn replies(&self, first: usize) -> Vec<OperationReply> {
        lock(&self.0).replies.get(first..).unwrap_or_default().to_vec()
    }
    /// Returns the first exception of an operation other than a call, starting with reply number `first`.
    pub fn raised(&self, first: usize) -> Option<ProgramException> {
        let core = lock(&self.0);
        let replies = core.replies.iter().zip(&core.operations).skip(first);
        replies.into_iter().find_map(|(reply, operation)| match reply {
            OperationReply::StartRaised(raised) => Some(raised.clone()),
            OperationReply::Raised(raised) if operation.op != CALL => Some(raised.clone()),
            _ => None,
        })
    }
    /// Returns the cause if the session has failed; `None` if it can continue or its start raised an exception.
    pub fn failed(&self) -> Option<Error> {
        match &lock(&self.0).phase {
            SessionPhase::Failed(OperationReply::Failed { error, .. }) => Some(error.clone()),
            _ => None,
        }
    }
    /// Returns an independent session with the state after the last reply. The program copies the session if it can;
    /// otherwise the new session repeats the requests.
    pub fn fork(&self) -> Self {
        let core = lock(&self.0);
        let copy = Self::new(Arc::clone(&core.program), core.start_fields.clone());
        let mut new = lock(&copy.0);
        new.replies.clone_from(&core.replies);
        new.operations = core.operations[..core.replies.len()].to_vec();
        new.phase = core.begin_copy(&new);
        if matches!(new.phase, SessionPhase::Forking(_)) {
            new.worker = core.worker;
        }
        drop(new);
        copy
    }
}

impl PendingReply {
    /// Advances the session, blocking up to about `wait`, and returns the reply if it has arrived.
    pub fn reply(&self, wait: Duration) -> Option<OperationReply> {
        let mut core = lock(&self.core);
        core.advance(wait);
        core.replies.get(self.index).cloned()
    }
}

fn lock(core: &Mutex<CustomSessionInner>) -> MutexGuard<'_, CustomSessionInner> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CustomSessionInner {
    /// Advances as far as the available responses allow. Waits up to `wait` for each.
    fn advance(&mut self, wait: Duration) {
        while let Some(next) = self.next(wait) {
            self.phase = next;
        }
    }

    fn next(&mut self, wait: Duration) -> Option<SessionPhase> {
        let poll = |pending: &PendingProgramResponse| if wait.is_zero() { pending.poll() } else { pending.wait(wait) };
        Some(match &self.phase {
            SessionPhase::Closed if self.replies.len() < self.operations.len() => {
                match self.program.peer.send_in_session(self.location(None), "start", self.start_fields.clone()) {
                    Ok(pending) => SessionPhase::Opening(pending),
                    Err(error) => failed(error),
                }
            }
            SessionPhase::Opening(pending) => match poll(pending)? {
                Ok(reply) => self.repeat(reply.generation, 0),
                Err(fault) => self.handle_fault(fault),
            },
            SessionPhase::Forking(pending) => match poll(pending)? {
                Ok(reply) => SessionPhase::Open { generation: reply.generation },
                Err(ProgramFault::Exception(raised)) => {
                    self.program.log_exception("a fork", &raised);
                    SessionPhase::Closed
                }
                Err(fault) => self.handle_fault(fault),
            },
            SessionPhase::Repeating { generation, index, pending } => {
                let (generation, index) = (*generation, *index);
                let reply = match poll(pending)? {
                    Ok(reply) => OperationReply::Value(reply.value),
                    Err(ProgramFault::Exception(raised)) => OperationReply::Raised(raised),
                    Err(fault) => return Some(self.handle_fault(fault)),
                };
                if is_same(&reply, &self.replies[index]) {
                    self.repeat(generation, index + 1)
                } else {
                    self.reply_changed(index)
                }
            }
            SessionPhase::Open { generation } => {
                let generation = *generation;
                let operation = self.operations.get(self.replies.len())?;
                match self.send(generation, operation) {
                    Ok(pending) => SessionPhase::Running { generation, pending },
                    Err(error) => failed(error),
                }
            }
            SessionPhase::Running { generation, pending } => {
                let generation = *generation;
                match poll(pending)? {
                    Ok(reply) => self.replies.push(OperationReply::Value(reply.value)),
                    Err(ProgramFault::Exception(raised)) => {
                        self.log_raised(&self.operations[self.replies.len()], &raised);
                        self.replies.push(OperationReply::Raised(raised));
                    }
                    Err(fault) => return Some(self.handle_fault(fault)),
                }
                SessionPhase::Open { generation }
            }
            SessionPhase::Failed(reply) => {
                self.replies.resize(self.operations.len(), reply.clone());
                return None;
            }
            SessionPhase::Closed => return None,
        })
    }

    /// Logs an exception. The model sees the exceptions of its calls, which are counted by tool.
    fn log_raised(&self, operation: &SessionOperation, raised: &ProgramException) {
        match operation.body.get("tool").and_then(Value::as_str).filter(|_| operation.op == CALL) {
            Some(tool) => self.program.log_call(tool, raised),
            None => self.program.log_exception(&operation.name, raised),
        }
    }
    fn send(&self, generation: u64, operation: &SessionOperation) -> Result<PendingProgramResponse> {
        self.program.peer.send_in_session(self.location(Some(generation)), operation.op, operation.body.clone())
    }
    fn location(&self, generation: Option<u64>) -> SessionLocation {
        SessionLocation { session: self.number, worker: self.worker, generation }
    }
    /// Repeats the answered requests, starting at an index.
    fn repeat(&self, generation: u64, index: usize) -> SessionPhase {
        if index == self.replies.len() {
            return SessionPhase::Open { generation };
        }
        match self.send(generation, &self.operations[index]) {
            Ok(pending) => SessionPhase::Repeating { generation, index, pending },
            Err(error) => failed(error),
        }
    }
    /// Returns the phase after a request without a response: the session is closed, to be started again, if its process
    /// was lost and it may lose another one; otherwise it fails.
    fn handle_fault(&mut self, fault: ProgramFault) -> SessionPhase {
        let late = matches!(fault, ProgramFault::TimedOut(_));
        match fault {
            ProgramFault::Lost(_) if self.losses < MAX_LOSSES => {
                self.losses += 1;
                SessionPhase::Closed
            }
            ProgramFault::Exception(raised) => {
                self.program.log_exception("the start of an episode", &raised);
                SessionPhase::Failed(OperationReply::StartRaised(raised))
            }
            ProgramFault::Lost(error) | ProgramFault::Outage(error) | ProgramFault::TimedOut(error) => {
                self.program.warn(&error.message);
                SessionPhase::Failed(OperationReply::Failed { error, late })
            }
        }
    }
    fn reply_changed(&self, index: usize) -> SessionPhase {
        let message = format!(
            "operation {} of an episode ({}) returned a different result when it was repeated",
            index + 1,
            self.operations[index].name
        );
        self.program.warn(&message);
        let error = Error::retryable(message).at(self.program.peer.place());
        failed(error.help("make results depend only on the problem, the seed and earlier calls, or offer `fork`"))
    }
    /// Returns the first phase of the copy `new` of this session.
    fn begin_copy(&self, new: &Self) -> SessionPhase {
        match &self.phase {
            SessionPhase::Failed(reply) => SessionPhase::Failed(reply.clone()),
            SessionPhase::Open { generation } if self.program.capabilities.forks => {
                let location = SessionLocation { session: new.number, ..self.location(Some(*generation)) };
                let from = [("from".to_string(), json!(self.number))].into_iter().collect();
                let pending = self.program.peer.send_in_session(location, "fork", from);
                pending.map_or_else(failed, SessionPhase::Forking)
            }
            _ => SessionPhase::Closed,
        }
    }
}

impl Drop for CustomSessionInner {
    fn drop(&mut self) {
        let generation = match self.phase {
            SessionPhase::Repeating { generation, .. }
            | SessionPhase::Open { generation }
            | SessionPhase::Running { generation, .. } => Some(generation),
            // The process may hold the session nevertheless.
            SessionPhase::Closed | SessionPhase::Opening(_) | SessionPhase::Forking(_) | SessionPhase::Failed(_) => {
                None
            }
        };
        // The response is not needed.
        let _ = self.program.peer.send_in_session(self.location(generation), "close", Map::new());
    }
}

fn failed(error: Error) -> SessionPhase {
    SessionPhase::Failed(OperationReply::Failed { error, late: false })
}

/// Compares a repeated reply with the earlier one. Tracebacks are ignored, since they may contain addresses.
fn is_same(repeated: &OperationReply, original: &OperationReply) -> bool {
    match (repeated, original) {
        (OperationReply::Raised(repeated), OperationReply::Raised(original)) => {
            (&repeated.kind, &repeated.message) == (&original.kind, &original.message)
        }
        _ => repeated == original,
    }
}
