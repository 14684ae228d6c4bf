//! What a worker process does with the sessions that it holds, whatever runs their programs.

use crate::tools::wire::{Recipe, Reply};

/// The sessions of one worker.
pub trait Sessions {
    /// Rebuilds a session from its recipe. If that fails, its next call is answered so.
    fn open(&mut self, session: u64, recipe: &Recipe);
    /// Forgets a session.
    fn close(&mut self, session: u64);
    /// Runs one program.
    fn call(&mut self, session: u64, code: &str) -> Reply;
}
