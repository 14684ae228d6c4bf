//! What requests work with.

use super::tokens::Tokens;
use crate::book::Actor;
use crate::daemon::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::{Chance, Clock};
use trainyard_store::Store;

/// What requests work with.
pub struct App {
    /// The store; it waits for nobody.
    pub store: Store,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// For ids.
    pub chance: Chance,
    /// The daemon beside it.
    pub daemon: Arc<Shared>,
    /// Who may do what. Without any, only requests that name this machine are answered.
    pub tokens: Tokens,
    /// Version of the program.
    pub version: &'static str,
    /// How many requests changed something; 0 at first.
    pub changes: AtomicU64,
}

impl App {
    /// Whoever sent a request that changes a schedule.
    pub fn actor<'a>(&'a self, name: &'a str) -> Actor<'a> {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        Actor { clock: self.clock.as_ref(), chance: self.chance.child("request", &[number]), name }
    }
}
