//! Settings of a server.

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Secret};
use trainyard_http_server::Limits;

/// Settings of a server.
#[derive(Clone)]
pub struct Settings {
    /// Key that every request must have; `None` = the desk decides, the server listens on loopback, and only requests
    /// that name this machine are admitted.
    pub key: Option<Secret>,
    /// Maximum bytes of a request's body.
    pub body: usize,
    /// Timeout for receiving a body.
    pub patience: Duration,
    /// Bounds on connections and on waiting for their bytes.
    pub limits: Limits,
    /// Number of answers of [`crate::Form::Responses`] that are kept for later requests.
    pub kept: usize,
    /// Clock of answers' timestamps.
    pub clock: Arc<dyn Clock>,
    /// Random source of answers' ids.
    pub chance: Chance,
}

impl Settings {
    /// Returns settings with no key, bodies of 32 MiB within 30 s, 1,000 kept answers.
    pub fn new(clock: Arc<dyn Clock>, chance: Chance) -> Self {
        let (body, patience) = (32 << 20, Duration::from_secs(30));
        Self { key: None, body, patience, limits: Limits::default(), kept: 1000, clock, chance }
    }
}
