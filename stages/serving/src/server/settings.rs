//! How a server is set up.

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Chance, Clock, Secret};

/// How a server is set up.
#[derive(Clone)]
pub struct Settings {
    /// The key that every request must bring; none = the desk decides, and only requests that name this machine are
    /// let in where the server listens on loopback.
    pub key: Option<Secret>,
    /// Bytes of a request's body.
    pub body: usize,
    /// Time in which a body must have come.
    pub patience: Duration,
    /// Answers of [`crate::Form::Responses`] that are kept to be continued.
    pub kept: usize,
    /// For the instants of answers.
    pub clock: Arc<dyn Clock>,
    /// For the ids of answers.
    pub chance: Chance,
}

impl Settings {
    /// No key, bodies of 32 MiB within 30 s, 1,000 kept answers.
    pub fn new(clock: Arc<dyn Clock>, chance: Chance) -> Self {
        Self { key: None, body: 32 << 20, patience: Duration::from_secs(30), kept: 1000, clock, chance }
    }
}
