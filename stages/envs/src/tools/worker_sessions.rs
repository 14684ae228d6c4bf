//! Defines the operations of a worker process on its sessions, independent of the interpreter.

use crate::tools::wire::{SessionRecipe, ToolWorkerReply};

/// The sessions of one worker.
pub trait WorkerSessions {
    /// Rebuilds a session from its recipe. On failure, the status of the session's next call is `Missing` or `Broken`.
    fn open(&mut self, session: u64, recipe: &SessionRecipe);
    fn close(&mut self, session: u64);
    fn call(&mut self, session: u64, code: &str) -> ToolWorkerReply;
}
