//! A claim on the response to a request, for which other threads may wait.

use crate::fault::ProgramFault;
use serde_json::Value;
use trainyard_core::{Error, Promise, Resolver};

/// A result, and the life of the process that returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramResponse {
    /// Result of the program.
    pub value: Value,
    /// Number of the process among those of its lane: its state is lost once another one responds.
    pub generation: u64,
}

/// Result of a request.
pub type ProgramResult = Result<ProgramResponse, ProgramFault>;

/// The requester's side.
pub type PendingProgramResponse = Promise<ProgramResult>;

/// The responding side. If it is dropped without a response, the claim fails because the workers have ended.
pub type ProgramResponder = Resolver<ProgramResult>;

/// Creates a claim, and its responder.
pub fn pending_response() -> (PendingProgramResponse, ProgramResponder) {
    Promise::new(|| Err(ProgramFault::Outage(Error::retryable("the program was stopped before it responded"))))
}
