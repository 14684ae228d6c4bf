//! A claim on the response to a request, for which other threads may wait.

use crate::fault::Fault;
use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::Error;

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

#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Answer>>,
    filled: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requester's side. The response stays until the ticket is dropped.
#[derive(Clone)]
pub struct Ticket(Arc<Slot>);

impl Ticket {
    /// Creates a claim, and its responder.
    pub fn new() -> (Self, Responder) {
        let slot = Arc::new(Slot::default());
        (Self(Arc::clone(&slot)), Responder(Some(slot)))
    }
    /// Returns the response, if it has arrived.
    pub fn poll(&self) -> Option<Answer> {
        self.0.lock().clone()
    }
    /// Blocks up to `within` for the response.
    pub fn wait(&self, within: Duration) -> Option<Answer> {
        let waited = self.0.filled.wait_timeout_while(self.0.lock(), within, |answer| answer.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
    /// Blocks until the response arrives, which the timeout of the program limits.
    pub fn answer(self) -> Answer {
        let filled = self.0.filled.wait_while(self.0.lock(), |answer| answer.is_none());
        let answer = filled.unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(gone()))
    }
}

/// The responding side. If it is dropped without a response, the claim fails because the workers are gone.
pub struct Responder(Option<Arc<Slot>>);

impl Responder {
    /// Sets the response and wakes all waiting threads.
    pub fn give(mut self, answer: Answer) {
        self.fill(answer);
    }
    fn fill(&mut self, answer: Answer) {
        if let Some(slot) = self.0.take() {
            *slot.lock() = Some(answer);
            slot.filled.notify_all();
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.fill(Err(gone()));
    }
}

fn gone() -> Fault {
    Fault::Outage(Error::retryable("the program was stopped before it answered"))
}
