//! Represents the pending result of a submitted call, like a future that can also be polled without a runtime.

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

/// Caller's side of a pending result. The result stays available until this is dropped.
#[derive(Clone)]
pub struct PendingToolResult(Arc<dyn PendingResultSource>);

/// Tool's side of a pending result, which resolves it.
pub(crate) type ToolResponder = Resolver<ToolResult>;

impl PendingToolResult {
    pub(crate) fn new() -> (Self, ToolResponder) {
        let (promise, responder) = Promise::new(|| ToolResult::infrastructure("error: the tool was lost"));
        (Self::from_source(promise), responder)
    }
    /// Returns a pending result with another source.
    pub(crate) fn from_source(source: impl PendingResultSource + 'static) -> Self {
        Self(Arc::new(source))
    }
    /// Returns a result that is already available.
    pub fn ready(result: ToolResult) -> Self {
        let (pending, responder) = Self::new();
        responder.resolve(result);
        pending
    }
    /// Returns the result, if it has arrived.
    pub fn poll(&self) -> Option<ToolResult> {
        self.0.poll()
    }
    /// Blocks up to about `wait` for the result; returns `None` if it has not arrived.
    pub fn wait(&self, wait: Duration) -> Option<ToolResult> {
        self.0.wait(wait)
    }
}

impl PendingResultSource for Promise<ToolResult> {
    fn poll(&self) -> Option<ToolResult> {
        // This calls the inherent method.
        Self::poll(self)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        Self::wait(self, wait)
    }
}
