//! Defines the context in which rewards are opened: the log, and the models to which they may send requests.

use crate::tools::ToolHost;
use std::sync::Arc;
use trainyard_chat::Models;
use trainyard_process::{ProgramLog, null_log};

/// Context of rewards.
#[derive(Clone)]
pub struct RewardContext {
    pub log: ProgramLog,
    /// Models at endpoints.
    pub models: Arc<Models>,
}

impl RewardContext {
    /// Returns the context of a stage with this host.
    pub fn of_host(host: &ToolHost) -> Self {
        Self { log: host.log(), models: Arc::clone(host.models()) }
    }
    /// Returns a context for use outside of a stage: it discards the log, and its models have no keys.
    pub fn detached() -> Self {
        Self::with_log(&null_log())
    }
    /// Returns a context for use outside of a stage, with a log, and models without keys.
    pub fn with_log(log: &ProgramLog) -> Self {
        Self { log: log.clone(), models: Models::in_memory() }
    }
}
