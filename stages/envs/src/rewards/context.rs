//! What rewards are opened with: where they may write, and the models that they may ask.

use crate::programs;
use std::sync::Arc;
use trainyard_api::StageContext;
use trainyard_chat::Models;
use trainyard_core::Result;
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
    /// Those of a running stage. Errors: data, if its input `requests` holds something else than answers.
    pub fn of_stage(context: &StageContext) -> Result<Self> {
        Ok(Self { log: programs::log(context), models: Models::of_stage(context)? })
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
