//! What rewards are opened with: where they may write, and the models that they may ask.

use crate::tools::ToolHost;
use std::sync::Arc;
use trainyard_chat::Models;
use trainyard_process::{Log, silent};

/// The place where rewards score.
#[derive(Clone)]
pub struct RewardContext {
    /// The log of the stage.
    pub log: Log,
    /// Models behind endpoints.
    pub models: Arc<Models>,
}

impl RewardContext {
    /// That of a stage with this host.
    pub fn of_host(host: &ToolHost) -> Self {
        Self { log: host.log(), models: Arc::clone(host.models()) }
    }
    /// A log that nobody reads, and models without keys.
    pub fn apart() -> Self {
        Self::with_log(&silent())
    }
    /// A log, and models without keys.
    pub fn with_log(log: &Log) -> Self {
        Self { log: log.clone(), models: Models::apart() }
    }
}
