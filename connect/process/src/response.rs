//! Defines the promise of a program's response, for which other threads may wait.

use crate::fault::ProgramFault;
use serde_json::Value;
use trainyard_core::{Error, Promise, Resolver};

/// A result, and the number of the process that returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramResponse {
    /// Result of the program.
    pub value: Value,
    /// Number of the process among those of its lane. Its state is lost once the lane has a process of another number.
    pub generation: u64,
}

/// Result of a request.
pub type ProgramResult = Result<ProgramResponse, ProgramFault>;

/// Promise of a result, held by the requester.
pub type PendingProgramResponse = Promise<ProgramResult>;

/// Sender of the result. If it is dropped unresolved, the promise fails because the workers have ended.
pub type ProgramResponder = Resolver<ProgramResult>;

/// Creates a promise and its responder.
pub fn pending_response() -> (PendingProgramResponse, ProgramResponder) {
    Promise::new(|| Err(ProgramFault::Outage(Error::retryable("the program was stopped before it responded"))))
}
