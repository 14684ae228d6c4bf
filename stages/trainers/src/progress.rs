//! Reports of a trainer.

use serde::{Deserialize, Serialize};
use trainyard_api::curves::LearningCurves;

/// Metric in progress lines.
pub const LOSS: &str = "loss";

/// Reports of a trainer so far. Resume points store it: a trainer that resumes after its last step reports no more.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainerProgress {
    /// Every metric by step.
    pub curves: LearningCurves,
    /// Number of finished optimizer steps.
    pub steps: u64,
}
