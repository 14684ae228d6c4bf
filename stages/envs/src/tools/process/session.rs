//! Session of a program: the requests of one episode, in order, and how to rebuild it.
//!
//! The process that holds a session may die at any time, and a fork needs a second one. In both cases the session is
//! begun anew and all answered requests are repeated. A program that then answers differently cannot be repeated, and
//! the episode is an infrastructure failure. There is no background work: a session advances only when a caller
//! requests a result.

use super::program::CustomProgram;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_process::{PendingProgramResponse, ProgramException, ProgramFault, SessionLocation};

/// Processes that may be lost under one session before it is given up.
const MOST_LOSSES: u32 = 2;

/// Operation whose exceptions are results: the model may have requested something impossible.
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
    /// The session is over for a reason other than its requests.
    Failed {
        /// Cause.
        error: Error,
        /// Whether the operation exceeded its time limit.
        late: bool,
    },
}

/// Session that closes when it and all claims on its results are dropped.
pub struct CustomSession(Arc<Mutex<CustomSessionInner>>);

/// A claim on the reply to one operation.
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
    beginning: Map<String, Value>,
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
    Repeating { generation: u64, index: usize, ticket: PendingProgramResponse },
    /// No request is in progress.
    Open { generation: u64 },
    /// The first operation without a reply is in progress.
    Running { generation: u64, ticket: PendingProgramResponse },
    /// All further replies are this one.
    Failed(OperationReply),
}

impl CustomSession {
    /// Returns a session that begins with these fields of `start`. Sends no request yet.
    pub fn new(program: Arc<CustomProgram>, beginning: Map<String, Value>) -> Self {
        let number = program.next_session();
        let lane = number as usize % program.peer.workers();
        let (asked, replies, phase) = (Vec::new(), Vec::new(), SessionPhase::Closed);
        Self(Arc::new(Mutex::new(CustomSessionInner {
            program,
            number,
            worker: lane,
            beginning,
            operations: asked,
            replies,
            phase,
            losses: 0,
        })))
    }
    /// Submits an operation after all earlier ones; `name` is its name in messages.
    pub fn submit(&self, op: &'static str, body: Map<String, Value>, name: impl Into<String>) -> PendingReply {
        let mut core = lock(&self.0);
        core.operations.push(SessionOperation { op, body, name: name.into() });
        let place = core.operations.len() - 1;
        core.advance(Duration::ZERO);
        drop(core);
        PendingReply { core: Arc::clone(&self.0), index: place }
    }
    /// Returns the replies that have arrived, starting with number `first`.
    pub fn replies(&self, first: usize) -> Vec<OperationReply> {
        lock(&self.0).replies.get(first..).unwrap_or_default().to_vec()
    }
    /// Returns the first exception, starting with reply number `first`, that is not that of a call.
    pub fn raised(&self, first: usize) -> Option<ProgramException> {
        let core = lock(&self.0);
        let replies = core.replies.iter().zip(&core.operations).skip(first);
        replies.into_iter().find_map(|(reply, operation)| match reply {
            OperationReply::StartRaised(raised) => Some(raised.clone()),
            OperationReply::Raised(raised) if operation.op != CALL => Some(raised.clone()),
            _ => None,
        })
    }
    /// Returns the cause if all further replies are failures.
    pub fn failed(&self) -> Option<Error> {
        match &lock(&self.0).phase {
            SessionPhase::Failed(OperationReply::Failed { error, .. }) => Some(error.clone()),
            _ => None,
        }
    }
    /// Returns an independent session with the state after the last reply.
    pub fn fork(&self) -> Self {
        let core = lock(&self.0);
        let copy = Self::new(Arc::clone(&core.program), core.beginning.clone());
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
    /// Returns the reply, once it has arrived; blocks up to about `wait`.
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
    /// Advances as far as the available replies allow.
    fn advance(&mut self, wait: Duration) {
        while let Some(next) = self.next(wait) {
            self.phase = next;
        }
    }

    fn next(&mut self, wait: Duration) -> Option<SessionPhase> {
        let came = |ticket: &PendingProgramResponse| if wait.is_zero() { ticket.poll() } else { ticket.wait(wait) };
        Some(match &self.phase {
            SessionPhase::Closed if self.replies.len() < self.operations.len() => {
                match self.program.peer.send_in_session(self.location(None), "start", self.beginning.clone()) {
                    Ok(ticket) => SessionPhase::Opening(ticket),
                    Err(error) => failed(error),
                }
            }
            SessionPhase::Opening(ticket) => match came(ticket)? {
                Ok(reply) => self.repeat(reply.generation, 0),
                Err(fault) => self.handle_fault(fault),
            },
            SessionPhase::Forking(ticket) => match came(ticket)? {
                Ok(reply) => SessionPhase::Open { generation: reply.generation },
                Err(ProgramFault::Exception(raised)) => {
                    self.program.log_exception("a fork", &raised);
                    SessionPhase::Closed
                }
                Err(fault) => self.handle_fault(fault),
            },
            SessionPhase::Repeating { generation: life, index: place, ticket } => {
                let (life, place) = (*life, *place);
                let again = match came(ticket)? {
                    Ok(reply) => OperationReply::Value(reply.value),
                    Err(ProgramFault::Exception(raised)) => OperationReply::Raised(raised),
                    Err(fault) => return Some(self.handle_fault(fault)),
                };
                if is_same(&again, &self.replies[place]) {
                    self.repeat(life, place + 1)
                } else {
                    self.reply_changed(place)
                }
            }
            SessionPhase::Open { generation: life } => {
                let life = *life;
                let operation = self.operations.get(self.replies.len())?;
                match self.send(life, operation) {
                    Ok(ticket) => SessionPhase::Running { generation: life, ticket },
                    Err(error) => failed(error),
                }
            }
            SessionPhase::Running { generation: life, ticket } => {
                let life = *life;
                match came(ticket)? {
                    Ok(reply) => self.replies.push(OperationReply::Value(reply.value)),
                    Err(ProgramFault::Exception(raised)) => {
                        self.program.log_exception(&self.operations[self.replies.len()].name, &raised);
                        self.replies.push(OperationReply::Raised(raised));
                    }
                    Err(fault) => return Some(self.handle_fault(fault)),
                }
                SessionPhase::Open { generation: life }
            }
            SessionPhase::Failed(reply) => {
                self.replies.resize(self.operations.len(), reply.clone());
                return None;
            }
            SessionPhase::Closed => return None,
        })
    }

    fn send(&self, life: u64, operation: &SessionOperation) -> Result<PendingProgramResponse> {
        self.program.peer.send_in_session(self.location(Some(life)), operation.op, operation.body.clone())
    }
    fn location(&self, life: Option<u64>) -> SessionLocation {
        SessionLocation { session: self.number, worker: self.worker, generation: life }
    }
    /// Repeats the answered requests, starting at a place.
    fn repeat(&self, life: u64, place: usize) -> SessionPhase {
        if place == self.replies.len() {
            return SessionPhase::Open { generation: life };
        }
        match self.send(life, &self.operations[place]) {
            Ok(ticket) => SessionPhase::Repeating { generation: life, index: place, ticket },
            Err(error) => failed(error),
        }
    }
    /// Handles an operation or a session without an answer.
    fn handle_fault(&mut self, fault: ProgramFault) -> SessionPhase {
        let late = matches!(fault, ProgramFault::TimedOut(_));
        match fault {
            ProgramFault::Lost(_) if self.losses < MOST_LOSSES => {
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
    fn reply_changed(&self, place: usize) -> SessionPhase {
        let message = format!(
            "operation {} of an episode ({}) gave another result when it was repeated",
            place + 1,
            self.operations[place].name
        );
        self.program.warn(&message);
        let error = Error::retryable(message).at(self.program.peer.place());
        failed(error.help("let results depend on the problem, the seed and earlier calls alone, or offer `fork`"))
    }
    /// Begins a copy of this session.
    fn begin_copy(&self, new: &Self) -> SessionPhase {
        match &self.phase {
            SessionPhase::Failed(reply) => SessionPhase::Failed(reply.clone()),
            SessionPhase::Open { generation: life } if self.program.capabilities.forks => {
                let seat = SessionLocation { session: new.number, ..self.location(Some(*life)) };
                let from = [("from".to_string(), json!(self.number))].into_iter().collect();
                let asked = self.program.peer.send_in_session(seat, "fork", from);
                asked.map_or_else(failed, SessionPhase::Forking)
            }
            _ => SessionPhase::Closed,
        }
    }
}

impl Drop for CustomSessionInner {
    fn drop(&mut self) {
        let life = match self.phase {
            SessionPhase::Repeating { generation: life, .. }
            | SessionPhase::Open { generation: life }
            | SessionPhase::Running { generation: life, .. } => Some(life),
            // The session may have been begun all the same.
            SessionPhase::Closed | SessionPhase::Opening(_) | SessionPhase::Forking(_) | SessionPhase::Failed(_) => {
                None
            }
        };
        // The answer is not needed.
        let _ = self.program.peer.send_in_session(self.location(life), "close", Map::new());
    }
}

fn failed(error: Error) -> SessionPhase {
    SessionPhase::Failed(OperationReply::Failed { error, late: false })
}

/// Compares a repeated reply with the earlier one. Tracebacks are ignored, since they may contain addresses.
fn is_same(again: &OperationReply, before: &OperationReply) -> bool {
    match (again, before) {
        (OperationReply::Raised(again), OperationReply::Raised(before)) => {
            (&again.kind, &again.message) == (&before.kind, &before.message)
        }
        _ => again == before,
    }
}
