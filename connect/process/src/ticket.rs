//! A claim on the response to a request, for which other threads may wait.

use crate::fault::Fault;
use serde_json::Value;
use trainyard_core::{Error, Promise, Resolver};

/// A result, and the life of the process that returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Result of the program.
    pub value: Value,
    /// Number of the process among those of its lane: its state is gone once another one responds.
    pub life: u64,
}

/// Result of a request.
pub type Answer = Result<Reply, Fault>;

/// The requester's side.
pub type Ticket = Promise<Answer>;

/// The responding side. If it is dropped without a response, the claim fails because the workers are gone.
pub type Responder = Resolver<Answer>;

/// Creates a claim, and its responder.
pub fn claim() -> (Ticket, Responder) {
    Promise::new(|| Err(Fault::Outage(Error::retryable("the program was stopped before it answered"))))
}
