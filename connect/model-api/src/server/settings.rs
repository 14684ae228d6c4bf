//! Settings of a server.

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Secret};

/// Settings of a server.
#[derive(Clone)]
pub struct ModelApiSettings {
    /// Key that every request must have; `None` = the desk decides, and only requests that name this machine are
    /// admitted where the server listens on loopback.
    pub key: Option<Secret>,
    /// Maximum bytes of a request's body.
    pub max_body_bytes: usize,
    /// Timeout for receiving a body.
    pub body_timeout: Duration,
    /// Number of answers of [`crate::ApiKind::Responses`] that are kept for later requests.
    pub max_conversations: usize,
    /// Clock of answers' timestamps.
    pub clock: Arc<dyn Clock>,
    /// Random source of answers' ids.
    pub chance: Chance,
}

impl ModelApiSettings {
    /// Returns settings with no key, bodies of 32 MiB within 30 s, 1,000 kept answers.
    pub fn new(clock: Arc<dyn Clock>, chance: Chance) -> Self {
        Self {
            key: None,
            max_body_bytes: 32 << 20,
            body_timeout: Duration::from_secs(30),
            max_conversations: 1000,
            clock,
            chance,
        }
    }
}
