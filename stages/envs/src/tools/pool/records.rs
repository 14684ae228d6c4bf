//! Keeps the records of the sessions of one lane, which its thread and the users of the sessions share.

use crate::tools::wire::SessionRecipe;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub struct ToolSessionRecords(Mutex<HashMap<u64, ToolSessionRecord>>);

/// Recipe of a session, and the process that holds it.
#[derive(Default)]
pub struct ToolSessionRecord {
    pub recipe: SessionRecipe,
    /// Program time of the recipe's history.
    pub cost: Duration,
    /// Number of the worker process that holds the session; 0 if no process holds it.
    pub held_by: u64,
}

impl ToolSessionRecords {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ToolSessionRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn insert(&self, session: u64, recipe: SessionRecipe) {
        self.lock().insert(session, ToolSessionRecord { recipe, ..ToolSessionRecord::default() });
    }
    pub fn recipe(&self, session: u64) -> SessionRecipe {
        self.lock().get(&session).map(|r| r.recipe.clone()).unwrap_or_default()
    }
    /// Calls `change` with a session's record while the records are locked. Returns `None` if the session is unknown.
    pub fn with<T>(&self, session: u64, change: impl FnOnce(&mut ToolSessionRecord) -> T) -> Option<T> {
        self.lock().get_mut(&session).map(change)
    }
    pub fn forget(&self, session: u64) -> Option<ToolSessionRecord> {
        self.lock().remove(&session)
    }
}
