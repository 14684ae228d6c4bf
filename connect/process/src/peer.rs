//! The interface of request handlers: processes of a program here, or a service elsewhere.

use crate::fault::Fault;
use crate::ticket::Ticket;
use crate::wire::Request;
use serde::Serialize;
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Location of a session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Number of the session, unique within the peer.
    pub session: u64,
    /// Lane of the session, below [`Peer::lanes`].
    pub lane: usize,
    /// Life of the response that left the state there; `None` for a request that begins the session.
    pub life: Option<u64>,
}

/// A handler of requests. No method blocks.
pub trait Peer: Send + Sync {
    /// Returns the name of the peer in messages.
    fn place(&self) -> &str;
    /// Returns the number of lanes over which sessions are distributed.
    fn lanes(&self) -> usize {
        1
    }
    /// Requests the features that the peer reported when it was ready, starting it if necessary.
    fn ready(&self) -> Ticket;
    /// Sends a request without a session.
    fn put(&self, request: Request) -> Ticket;
    /// Sends an operation of a session. Once the state is gone, the response is [`Fault::Lost`].
    fn put_in(&self, seat: Seat, op: &str, body: Map<String, Value>) -> Result<Ticket>;
}

impl dyn Peer + '_ {
    /// Sends a request without a session. `body` is a map of the keys of the operation `op`.
    pub fn ask(&self, op: &str, body: &impl Serialize) -> Result<Ticket> {
        Ok(self.put(Request::new(op, body)?))
    }
}

impl Fault {
    /// Returns the fault of a session that no longer exists.
    pub fn lost(place: &str) -> Self {
        Self::Lost(Error::retryable("the process that held this state has ended").at(place))
    }
}
