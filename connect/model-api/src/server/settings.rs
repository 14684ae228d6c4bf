//! Defines the settings of a server.

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Secret};
use trainyard_http_server::ServerLimits;

/// Settings of a server.
#[derive(Clone)]
pub struct ModelApiSettings {
    /// Key that every request must have. Without it, and unless the handler holds the keys, the server listens on
    /// loopback only, and only requests that name this machine are admitted.
    pub key: Option<Secret>,
    /// Whether every request must have the key that [`crate::ModelHandler::key`] returns for its path.
    pub handler_has_keys: bool,
    /// Maximum bytes of a request's body.
    pub max_body_bytes: usize,
    /// Timeout for receiving a body.
    pub body_timeout: Duration,
    /// Bounds on connections and on waiting for their bytes.
    pub limits: ServerLimits,
    /// Number of responses of [`crate::ApiKind::Responses`] that are cached for continuing requests.
    pub max_conversations: usize,
    /// Clock of the responses' timestamps.
    pub clock: Arc<dyn Clock>,
    /// Random source of the responses' ids.
    pub chance: Chance,
}

impl ModelApiSettings {
    /// Returns settings with no key, bodies of 32 MiB within 30 s, 1,000 stored responses.
    pub fn new(clock: Arc<dyn Clock>, chance: Chance) -> Self {
        let (body, timeout) = (32 << 20, Duration::from_secs(30));
        Self {
            key: None,
            handler_has_keys: false,
            max_body_bytes: body,
            body_timeout: timeout,
            limits: ServerLimits::default(),
            max_conversations: 1000,
            clock,
            chance,
        }
    }
}
