//! Holds one attempt of a stage's fold, with the times at which it waited for the machine.

use super::time::{optional_time, time};
use serde::Serialize;
use trainyard_core::event::{AttemptOutcome, GrantSummary};
use trainyard_core::{AttemptNumber, Digest, Error};

/// One attempt of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptView {
    pub number: AttemptNumber,
    /// Digest of the stage at the start.
    pub digest: Digest,
    pub pool: String,
    /// The executor's name of the attempt, if it outlives the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Granted resources.
    pub grant: GrantSummary,
    /// Start, in Unix milliseconds.
    #[serde(serialize_with = "time")]
    pub started: i64,
    /// End, in Unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub ended: Option<i64>,
    /// Waits for the machine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<AttemptWait>,
    /// Outcome; `None` while it runs.
    pub outcome: Option<AttemptOutcome>,
    /// Error of an attempt that did not succeed.
    pub error: Option<Error>,
}

/// Time at which an attempt had its grant, but no machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptWait {
    /// Start, in Unix milliseconds.
    #[serde(serialize_with = "time")]
    pub from: i64,
    /// End, in Unix milliseconds; `None` while the attempt waits.
    #[serde(serialize_with = "optional_time")]
    pub until: Option<i64>,
    /// Last reason, in the executor's wording.
    pub why: String,
}

impl AttemptView {
    /// Begins a wait, or changes the reason of the present one.
    pub(super) fn wait(&mut self, at: i64, why: &str) {
        match self.waits.last_mut().filter(|wait| wait.until.is_none()) {
            Some(wait) => wait.why = why.to_string(),
            None => self.waits.push(AttemptWait { from: at, until: None, why: why.to_string() }),
        }
    }
    /// Ends the present wait, if any.
    pub(super) fn stop_waiting(&mut self, at: i64) {
        if let Some(wait) = self.waits.last_mut().filter(|wait| wait.until.is_none()) {
            wait.until = Some(at.max(wait.from));
        }
    }
}
