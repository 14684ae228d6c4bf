//! A claim on the response to a request, for which other threads may wait.

use crate::fault::ProgramFault;
use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::Error;

/// A result, and the life of the process that returned it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramResponse {
    /// Result of the program.
    pub value: Value,
    /// Number of the process among those of its lane: its state is gone once another one responds.
    pub generation: u64,
}

/// Result of a request.
pub type ProgramResult = Result<ProgramResponse, ProgramFault>;

#[derive(Default)]
struct ResponseSlot {
    answer: Mutex<Option<ProgramResult>>,
    filled: Condvar,
}

impl ResponseSlot {
    fn lock(&self) -> MutexGuard<'_, Option<ProgramResult>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requester's side. The response stays until the ticket is dropped.
#[derive(Clone)]
pub struct PendingProgramResponse(Arc<ResponseSlot>);

impl PendingProgramResponse {
    /// Creates a claim, and its responder.
    pub fn new() -> (Self, ProgramResponder) {
        let slot = Arc::new(ResponseSlot::default());
        (Self(Arc::clone(&slot)), ProgramResponder(Some(slot)))
    }
    /// Returns the response, if it has arrived.
    pub fn poll(&self) -> Option<ProgramResult> {
        self.0.lock().clone()
    }
    /// Blocks up to `within` for the response.
    pub fn wait(&self, within: Duration) -> Option<ProgramResult> {
        let waited = self.0.filled.wait_timeout_while(self.0.lock(), within, |answer| answer.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
    /// Blocks until the response arrives, which the timeout of the program limits.
    pub fn join(self) -> ProgramResult {
        let filled = self.0.filled.wait_while(self.0.lock(), |answer| answer.is_none());
        let answer = filled.unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(stopped_fault()))
    }
}

/// The responding side. If it is dropped without a response, the claim fails because the workers are gone.
pub struct ProgramResponder(Option<Arc<ResponseSlot>>);

impl ProgramResponder {
    /// Sets the response and wakes all waiting threads.
    pub fn respond(mut self, answer: ProgramResult) {
        self.fill(answer);
    }
    fn fill(&mut self, answer: ProgramResult) {
        if let Some(slot) = self.0.take() {
            *slot.lock() = Some(answer);
            slot.filled.notify_all();
        }
    }
}

impl Drop for ProgramResponder {
    fn drop(&mut self) {
        self.fill(Err(stopped_fault()));
    }
}

fn stopped_fault() -> ProgramFault {
    ProgramFault::Outage(Error::retryable("the program was stopped before it answered"))
}
