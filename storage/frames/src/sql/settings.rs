//! Settings of a run of a statement.

use std::sync::Arc;
use trainyard_core::Result;

/// Function that is called after each batch of an input; its error ends the statement.
pub type AfterBatch = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// Settings of a run of a statement.
#[derive(Clone)]
pub struct FrameSettings {
    /// Seed of the function `random`.
    pub seed: u64,
    /// Maximum rows of the result and of every join.
    pub max_rows: u64,
    /// Called after each batch that is read.
    pub after_batch: AfterBatch,
}

impl FrameSettings {
    /// Creates settings that nothing interrupts.
    pub fn new(seed: u64, max_rows: u64) -> Self {
        Self { seed, max_rows, after_batch: Arc::new(|| Ok(())) }
    }
}
