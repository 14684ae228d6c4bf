//! Holds the state that request handlers share.

use super::tokens::ApiTokens;
use crate::daemon::DaemonShared;
use crate::operations::Actor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::{Chance, Clock};
use trainyard_store::Store;

/// Shared state of request handlers.
pub struct ApiState {
    /// Store without retries during outages.
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// Source of ids.
    pub chance: Chance,
    /// Daemon of the same process.
    pub daemon: Arc<DaemonShared>,
    /// Access rights. Without tokens, only requests that name this machine are accepted.
    pub tokens: ApiTokens,
    pub version: &'static str,
    /// Number of requests that changed something; 0 at first.
    pub changes: AtomicU64,
}

impl ApiState {
    /// Returns the author of a change to a schedule, for a request of the sender `name`. Counts the request, so that
    /// its ids are unique.
    pub fn actor<'a>(&'a self, name: &'a str) -> Actor<'a> {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        Actor { clock: self.clock.as_ref(), chance: self.chance.child("request", &[number]), name }
    }
}
