//! Reports of a trainer.

use serde::{Deserialize, Serialize};
use trainyard_api::curves::Curves;

/// Metric in progress lines.
pub const LOSS: &str = "loss";

/// Reports of a trainer so far. Resume points store it: a trainer that resumes after its last step reports no more.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Every metric by step.
    pub curves: Curves,
    /// Number of finished optimizer steps.
    pub steps: u64,
}
