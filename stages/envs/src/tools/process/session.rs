//! Session of a program: the requests of one episode, in order, and how to rebuild it.
//!
//! The process that holds a session may die at any time, and a fork needs a second one. In both cases the session is
//! begun anew and all answered requests are repeated. A program that then answers differently cannot be repeated, and
//! the episode is an infrastructure failure. There is no background work: a session advances only when a caller
//! requests a result.

use crate::tools::program::Program;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_process::{Fault, Raised, Seat, Ticket};

/// Processes that may be lost under one session before it is given up.
const MOST_LOSSES: u32 = 2;

/// Operation whose exceptions are results: the model may have requested something impossible.
pub const CALL: &str = "call";

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The program's result.
    Value(Value),
    /// The program raised an exception.
    Raised(Raised),
    /// The program raised an exception when the session began.
    Unbegun(Raised),
    /// The session is over for a reason other than its requests.
    Failed {
        /// Cause.
        error: Error,
        /// Whether the operation exceeded its time limit.
        late: bool,
    },
}

/// Session that closes when it and all claims on its results are dropped.
pub struct Session(Arc<Mutex<Core>>);

/// A claim on the reply to one operation.
pub struct Awaited {
    core: Arc<Mutex<Core>>,
    place: usize,
}

#[derive(Clone)]
struct Operation {
    op: &'static str,
    body: Map<String, Value>,
    /// Name in messages.
    name: String,
}

struct Core {
    program: Arc<Program>,
    number: u64,
    lane: usize,
    beginning: Map<String, Value>,
    asked: Vec<Operation>,
    /// Replies to the first of the requests.
    replies: Vec<Reply>,
    phase: Phase,
    losses: u32,
}

enum Phase {
    /// No process holds the session.
    Closed,
    /// A process begins the session.
    Opening(Ticket),
    /// The session's process copies it from another one.
    Forking(Ticket),
    /// Answered requests are repeated.
    Repeating { life: u64, place: usize, ticket: Ticket },
    /// No request is in progress.
    Open { life: u64 },
    /// The first operation without a reply is in progress.
    Asking { life: u64, ticket: Ticket },
    /// All further replies are this one.
    Failed(Reply),
}

impl Session {
    /// Returns a session that begins with these fields of `start`. Sends no request yet.
    pub fn new(program: Arc<Program>, beginning: Map<String, Value>) -> Self {
        let number = program.number();
        let lane = number as usize % program.peer.lanes();
        let (asked, replies, phase) = (Vec::new(), Vec::new(), Phase::Closed);
        Self(Arc::new(Mutex::new(Core { program, number, lane, beginning, asked, replies, phase, losses: 0 })))
    }
    /// Submits an operation after all earlier ones; `name` is its name in messages.
    pub fn ask(&self, op: &'static str, body: Map<String, Value>, name: impl Into<String>) -> Awaited {
        let mut core = lock(&self.0);
        core.asked.push(Operation { op, body, name: name.into() });
        let place = core.asked.len() - 1;
        core.advance(Duration::ZERO);
        drop(core);
        Awaited { core: Arc::clone(&self.0), place }
    }
    /// Returns the replies that have arrived, starting with number `first`.
    pub fn replies(&self, first: usize) -> Vec<Reply> {
        lock(&self.0).replies.get(first..).unwrap_or_default().to_vec()
    }
    /// Returns the first exception, starting with reply number `first`, that is not that of a call.
    pub fn raised(&self, first: usize) -> Option<Raised> {
        let core = lock(&self.0);
        let replies = core.replies.iter().zip(&core.asked).skip(first);
        replies.into_iter().find_map(|(reply, operation)| match reply {
            Reply::Unbegun(raised) => Some(raised.clone()),
            Reply::Raised(raised) if operation.op != CALL => Some(raised.clone()),
            _ => None,
        })
    }
    /// Returns the cause if all further replies are failures.
    pub fn failed(&self) -> Option<Error> {
        match &lock(&self.0).phase {
            Phase::Failed(Reply::Failed { error, .. }) => Some(error.clone()),
            _ => None,
        }
    }
    /// Returns an independent session with the state after the last reply.
    pub fn fork(&self) -> Self {
        let core = lock(&self.0);
        let copy = Self::new(Arc::clone(&core.program), core.beginning.clone());
        let mut new = lock(&copy.0);
        new.replies.clone_from(&core.replies);
        new.asked = core.asked[..core.replies.len()].to_vec();
        new.phase = core.copied(&new);
        if matches!(new.phase, Phase::Forking(_)) {
            new.lane = core.lane;
        }
        drop(new);
        copy
    }
}

impl Awaited {
    /// Returns the reply, once it has arrived; blocks up to about `wait`.
    pub fn reply(&self, wait: Duration) -> Option<Reply> {
        let mut core = lock(&self.core);
        core.advance(wait);
        core.replies.get(self.place).cloned()
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Advances as far as the available replies allow.
    fn advance(&mut self, wait: Duration) {
        while let Some(next) = self.next(wait) {
            self.phase = next;
        }
    }

    fn next(&mut self, wait: Duration) -> Option<Phase> {
        let came = |ticket: &Ticket| if wait.is_zero() { ticket.poll() } else { ticket.wait(wait) };
        Some(match &self.phase {
            Phase::Closed if self.replies.len() < self.asked.len() => {
                match self.program.peer.put_in(self.seat(None), "start", self.beginning.clone()) {
                    Ok(ticket) => Phase::Opening(ticket),
                    Err(error) => failed(error),
                }
            }
            Phase::Opening(ticket) => match came(ticket)? {
                Ok(reply) => self.repeat(reply.life, 0),
                Err(fault) => self.missed(fault),
            },
            Phase::Forking(ticket) => match came(ticket)? {
                Ok(reply) => Phase::Open { life: reply.life },
                Err(Fault::Raised(raised)) => {
                    self.program.raised("a fork", &raised);
                    Phase::Closed
                }
                Err(fault) => self.missed(fault),
            },
            Phase::Repeating { life, place, ticket } => {
                let (life, place) = (*life, *place);
                let again = match came(ticket)? {
                    Ok(reply) => Reply::Value(reply.value),
                    Err(Fault::Raised(raised)) => Reply::Raised(raised),
                    Err(fault) => return Some(self.missed(fault)),
                };
                if is_same(&again, &self.replies[place]) { self.repeat(life, place + 1) } else { self.changed(place) }
            }
            Phase::Open { life } => {
                let life = *life;
                let operation = self.asked.get(self.replies.len())?;
                match self.send(life, operation) {
                    Ok(ticket) => Phase::Asking { life, ticket },
                    Err(error) => failed(error),
                }
            }
            Phase::Asking { life, ticket } => {
                let life = *life;
                match came(ticket)? {
                    Ok(reply) => self.replies.push(Reply::Value(reply.value)),
                    Err(Fault::Raised(raised)) => {
                        self.program.raised(&self.asked[self.replies.len()].name, &raised);
                        self.replies.push(Reply::Raised(raised));
                    }
                    Err(fault) => return Some(self.missed(fault)),
                }
                Phase::Open { life }
            }
            Phase::Failed(reply) => {
                self.replies.resize(self.asked.len(), reply.clone());
                return None;
            }
            Phase::Closed => return None,
        })
    }

    fn send(&self, life: u64, operation: &Operation) -> Result<Ticket> {
        self.program.peer.put_in(self.seat(Some(life)), operation.op, operation.body.clone())
    }
    fn seat(&self, life: Option<u64>) -> Seat {
        Seat { session: self.number, lane: self.lane, life }
    }
    /// Repeats the answered requests, starting at a place.
    fn repeat(&self, life: u64, place: usize) -> Phase {
        if place == self.replies.len() {
            return Phase::Open { life };
        }
        match self.send(life, &self.asked[place]) {
            Ok(ticket) => Phase::Repeating { life, place, ticket },
            Err(error) => failed(error),
        }
    }
    /// Handles an operation or a session without an answer.
    fn missed(&mut self, fault: Fault) -> Phase {
        let late = matches!(fault, Fault::Late(_));
        match fault {
            Fault::Lost(_) if self.losses < MOST_LOSSES => {
                self.losses += 1;
                Phase::Closed
            }
            Fault::Raised(raised) => {
                self.program.raised("the start of an episode", &raised);
                Phase::Failed(Reply::Unbegun(raised))
            }
            Fault::Lost(error) | Fault::Outage(error) | Fault::Late(error) => {
                self.program.warn(&error.message);
                Phase::Failed(Reply::Failed { error, late })
            }
        }
    }
    fn changed(&self, place: usize) -> Phase {
        let message = format!(
            "operation {} of an episode ({}) gave another result when it was repeated",
            place + 1,
            self.asked[place].name
        );
        self.program.warn(&message);
        let error = Error::retryable(message).at(self.program.peer.place());
        failed(error.help("let results depend on the problem, the seed and earlier calls alone, or offer `fork`"))
    }
    /// Begins a copy of this session.
    fn copied(&self, new: &Self) -> Phase {
        match &self.phase {
            Phase::Failed(reply) => Phase::Failed(reply.clone()),
            Phase::Open { life } if self.program.offers.forks => {
                let seat = Seat { session: new.number, ..self.seat(Some(*life)) };
                let from = [("from".to_string(), json!(self.number))].into_iter().collect();
                let asked = self.program.peer.put_in(seat, "fork", from);
                asked.map_or_else(failed, Phase::Forking)
            }
            _ => Phase::Closed,
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let life = match self.phase {
            Phase::Repeating { life, .. } | Phase::Open { life } | Phase::Asking { life, .. } => Some(life),
            // The session may have been begun all the same.
            Phase::Closed | Phase::Opening(_) | Phase::Forking(_) | Phase::Failed(_) => None,
        };
        // The answer is not needed.
        let _ = self.program.peer.put_in(self.seat(life), "close", Map::new());
    }
}

fn failed(error: Error) -> Phase {
    Phase::Failed(Reply::Failed { error, late: false })
}

/// Compares a repeated reply with the earlier one. Tracebacks are ignored, since they may contain addresses.
fn is_same(again: &Reply, before: &Reply) -> bool {
    match (again, before) {
        (Reply::Raised(again), Reply::Raised(before)) => {
            (&again.kind, &again.message) == (&before.kind, &before.message)
        }
        _ => again == before,
    }
}
