//! Records of the sessions of one lane, shared by its thread and the threads that use the sessions.

use crate::tools::wire::Recipe;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub struct Records(Mutex<HashMap<u64, Record>>);

/// Recipe of a session, and the process that holds it.
#[derive(Default)]
pub struct Record {
    pub recipe: Recipe,
    /// Program time of the recipe's history.
    pub cost: Duration,
    /// Number of the worker process that holds the session; 0 = none.
    pub held_by: u64,
}

impl Records {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn enter(&self, session: u64, recipe: Recipe) {
        self.lock().insert(session, Record { recipe, ..Record::default() });
    }
    pub fn recipe(&self, session: u64) -> Recipe {
        self.lock().get(&session).map(|r| r.recipe.clone()).unwrap_or_default()
    }
    /// Reads or changes a session's record.
    pub fn with<T>(&self, session: u64, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        self.lock().get_mut(&session).map(change)
    }
    pub fn forget(&self, session: u64) -> Option<Record> {
        self.lock().remove(&session)
    }
}
