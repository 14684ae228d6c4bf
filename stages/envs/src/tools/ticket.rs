//! A claim on the result of a submitted call, like a future that can also be polled without a runtime.

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

/// The caller's side. The result stays available until the ticket is dropped.
#[derive(Clone)]
pub struct Ticket(Arc<Slot>);

/// The answering side.
pub(crate) struct Responder(Arc<Slot>);

impl Ticket {
    pub(crate) fn new() -> (Self, Responder) {
        let slot = Arc::new(Slot::default());
        (Self(Arc::clone(&slot)), Responder(slot))
    }
    /// A ticket that is answered already.
    pub fn ready(result: ToolResult) -> Self {
        let (ticket, answer) = Self::new();
        answer.give(result);
        ticket
    }
    /// The result, if it has arrived.
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

impl Responder {
    pub(crate) fn give(self, result: ToolResult) {
        *self.0.lock() = Some(result);
        self.0.filled.notify_all();
    }
}
