//! A claim on the answer to a request, which other threads may wait for.

use crate::fault::Fault;
use serde_json::Value;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::Error;

/// A result, and the life of the process that gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What the program answered.
    pub value: Value,
    /// Number of the process among those of its lane: what it keeps is gone once another one answers.
    pub life: u64,
}

/// What becomes of a request.
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

/// The asker's side. The answer stays until the ticket is dropped.
#[derive(Clone)]
pub struct Ticket(Arc<Slot>);

impl Ticket {
    /// A claim, and the side that answers it.
    pub fn new() -> (Self, Responder) {
        let slot = Arc::new(Slot::default());
        (Self(Arc::clone(&slot)), Responder(Some(slot)))
    }
    /// The answer, if it has come.
    pub fn poll(&self) -> Option<Answer> {
        self.0.lock().clone()
    }
    /// Blocks up to `within` for the answer.
    pub fn wait(&self, within: Duration) -> Option<Answer> {
        let waited = self.0.filled.wait_timeout_while(self.0.lock(), within, |answer| answer.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
    /// Blocks until the answer comes, which the timeout of the program bounds.
    pub fn answer(self) -> Answer {
        let filled = self.0.filled.wait_while(self.0.lock(), |answer| answer.is_none());
        let answer = filled.unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(gone()))
    }
}

/// The answering side. Dropped without an answer, it says that the workers are gone.
pub struct Responder(Option<Arc<Slot>>);

impl Responder {
    /// Answers; all who wait go on.
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
