//! Whoever answers requests: processes of a program here, or a service elsewhere.

use crate::fault::Fault;
use crate::ticket::Ticket;
use crate::wire::Request;
use serde::Serialize;
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Where the state of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Number of the session; no other session of the peer has it.
    pub session: u64,
    /// What answers it, below [`Peer::lanes`].
    pub lane: usize,
    /// The life of the answer that left the state there; none for a request that begins the session.
    pub life: Option<u64>,
}

/// Answers requests. Nothing here blocks.
pub trait Peer: Send + Sync {
    /// The peer in messages.
    fn place(&self) -> &str;
    /// How many lanes sessions are spread over.
    fn lanes(&self) -> usize {
        1
    }
    /// What the peer said when it was ready; it starts if it does not run.
    fn ready(&self) -> Ticket;
    /// Asks about what no session keeps.
    fn put(&self, request: Request) -> Ticket;
    /// Asks for an operation of a session. Once the state is gone, the answer is [`Fault::Lost`].
    fn put_in(&self, seat: Seat, op: &str, body: Map<String, Value>) -> Result<Ticket>;
}

impl dyn Peer + '_ {
    /// Asks about what no session keeps. `body` is a map of the keys of the operation `op`.
    pub fn ask(&self, op: &str, body: &impl Serialize) -> Result<Ticket> {
        Ok(self.put(Request::new(op, body)?))
    }
}

impl Fault {
    /// The session that is asked for is not there any more.
    pub fn lost(place: &str) -> Self {
        Self::Lost(Error::retryable("the process that held this state has ended").at(place))
    }
}
