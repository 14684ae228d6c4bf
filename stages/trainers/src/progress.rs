//! Defines the state that a trainer has reported so far.

use serde::{Deserialize, Serialize};
use trainyard_api::curves::LearningCurves;

/// Name of the metric in progress lines.
pub const LOSS: &str = "loss";

/// Reports of a trainer so far. Resume points contain them, since a resumed trainer does not report earlier steps
/// again.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainerProgress {
    /// Every metric by step.
    pub curves: LearningCurves,
    /// Number of finished optimizer steps.
    pub steps: u64,
}
