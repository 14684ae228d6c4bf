//! A claim on the result of a submitted call, like a future that can also be polled without a runtime.

use crate::tools::ToolResult;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Promise, Resolver};

/// Source of a result.
pub(crate) trait PendingResultSource: Send + Sync {
    /// Returns the result, if it has arrived.
    fn poll(&self) -> Option<ToolResult>;
    /// Blocks up to about `wait` for the result.
    fn wait(&self, wait: Duration) -> Option<ToolResult>;
}

/// The caller's side. The result stays available until the ticket is dropped.
#[derive(Clone)]
pub struct PendingToolResult(Arc<dyn PendingResultSource>);

/// The answering side.
pub(crate) type ToolResponder = Resolver<ToolResult>;

impl PendingToolResult {
    pub(crate) fn new() -> (Self, ToolResponder) {
        let (promise, responder) = Promise::new(|| ToolResult::infrastructure("error: the tool was lost"));
        (Self::from_source(promise), responder)
    }
    /// Returns a ticket whose result has another source.
    pub(crate) fn from_source(claim: impl PendingResultSource + 'static) -> Self {
        Self(Arc::new(claim))
    }
    /// Returns a ticket that is answered already.
    pub fn ready(result: ToolResult) -> Self {
        let (ticket, answer) = Self::new();
        answer.resolve(result);
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

impl PendingResultSource for Promise<ToolResult> {
    fn poll(&self) -> Option<ToolResult> {
        // The inherent method.
        Self::poll(self)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        Self::wait(self, wait)
    }
}
