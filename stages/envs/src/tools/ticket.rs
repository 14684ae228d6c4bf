//! A claim on the result of a submitted call.

use crate::tools::ToolResult;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct Slot {
    result: Mutex<Option<ToolResult>>,
    filled: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<ToolResult>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller's side. The result stays until the ticket is dropped.
#[derive(Clone)]
pub struct Ticket(Arc<Slot>);

/// The side that answers.
pub(crate) struct Answer(Arc<Slot>);

impl Ticket {
    pub(crate) fn new() -> (Self, Answer) {
        let slot = Arc::new(Slot::default());
        (Self(Arc::clone(&slot)), Answer(slot))
    }
    /// A ticket whose result is there already.
    pub fn ready(result: ToolResult) -> Self {
        let (ticket, answer) = Self::new();
        answer.give(result);
        ticket
    }
    /// The result, if it is there.
    pub fn poll(&self) -> Option<ToolResult> {
        self.0.lock().clone()
    }
    /// Blocks up to `wait` for the result.
    pub fn wait(&self, wait: Duration) -> Option<ToolResult> {
        let guard = self.0.lock();
        let waited = self.0.filled.wait_timeout_while(guard, wait, |result| result.is_none());
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.clone()
    }
}

impl Answer {
    pub(crate) fn give(self, result: ToolResult) {
        *self.0.lock() = Some(result);
        self.0.filled.notify_all();
    }
}
