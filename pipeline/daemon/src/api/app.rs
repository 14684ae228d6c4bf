//! Shared state of request handlers.

use super::tokens::Tokens;
use crate::book::Actor;
use crate::daemon::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::{Chance, Clock};
use trainyard_store::Store;

/// Shared state of request handlers.
pub struct App {
    /// Store without retries during outages.
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// Source of ids.
    pub chance: Chance,
    /// Daemon of the same process.
    pub daemon: Arc<Shared>,
    /// Access rights. Without tokens, only requests that name this machine are accepted.
    pub tokens: Tokens,
    pub version: &'static str,
    /// Number of requests that changed something; 0 at first.
    pub changes: AtomicU64,
}

impl App {
    /// Returns the sender of a request that changes a schedule.
    pub fn actor<'a>(&'a self, name: &'a str) -> Actor<'a> {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        Actor { clock: self.clock.as_ref(), chance: self.chance.child("request", &[number]), name }
    }
}
