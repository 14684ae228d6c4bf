//! A claim on the result of a submitted call, like a future that can also be polled without a runtime.

use crate::tools::ToolResult;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Source of a result.
pub(crate) trait ToolResultSource: Send + Sync {
    /// Returns the result, if it has arrived.
    fn poll(&self) -> Option<ToolResult>;
    /// Blocks up to about `wait` for the result.
    fn wait(&self, wait: Duration) -> Option<ToolResult>;
}

/// The caller's side. The result stays available until the ticket is dropped.
#[derive(Clone)]
pub struct PendingToolResult(Arc<dyn ToolResultSource>);

#[derive(Default)]
struct ToolResultSlot {
    result: Mutex<Option<ToolResult>>,
    filled: Condvar,
}

/// The answering side.
pub(crate) struct ToolResponder(Arc<ToolResultSlot>);

impl PendingToolResult {
    pub(crate) fn new() -> (Self, ToolResponder) {
        let slot = Arc::new(ToolResultSlot::default());
        (Self(Arc::clone(&slot) as Arc<dyn ToolResultSource>), ToolResponder(slot))
    }
    /// Returns a ticket whose result has another source.
    pub(crate) fn from_source(claim: impl ToolResultSource + 'static) -> Self {
        Self(Arc::new(claim))
    }
    /// Returns a ticket that is answered already.
    pub fn ready(result: ToolResult) -> Self {
        let (ticket, answer) = Self::new();
        answer.respond(result);
        ticket
    }
    /// Returns the result, if it has arrived.
    pub fn poll(&self) -> Option<ToolResult> {
        self.0.poll()
    }
    /// Blocks up to `wait` for the result.
    pub fn wait(&self, wait: Duration) -> Option<ToolResult> {
        self.0.wait(wait)
    }
}

impl ToolResultSlot {
    fn lock(&self) -> MutexGuard<'_, Option<ToolResult>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolResultSource for ToolResultSlot {
    fn poll(&self) -> Option<ToolResult> {
        self.lock().clone()
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        let waited = self.filled.wait_timeout_while(self.lock(), wait, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl ToolResponder {
    pub(crate) fn respond(self, result: ToolResult) {
        *self.0.lock() = Some(result);
        self.0.filled.notify_all();
    }
}
