//! What a trainer has told so far.

use serde::{Deserialize, Serialize};
use trainyard_api::curves::Curves;

/// The metric that progress lines show.
pub const LOSS: &str = "loss";

/// What a trainer has told so far. Resume points keep it: a trainer that goes on after its last step tells nothing
/// more.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Every metric by step.
    pub curves: Curves,
    /// Optimizer steps that are done.
    pub steps: u64,
}
