//! Samples rollouts when a step needs them, under the weights that the step updates.

use super::RolloutSource;
use crate::stages::rl::collect::RolloutBatch;
use crate::stages::rl::state::{RlProgress, RlRun};
use trainyard_core::Result;

pub(crate) struct SyncSource;

impl RolloutSource for SyncSource {
    fn next(&mut self, run: &RlRun<'_>, progress: &mut RlProgress) -> Result<RolloutBatch> {
        progress.refresh_sampler()?;
        run.collect(progress)
    }
    fn learned(&mut self, _progress: &RlProgress) -> Result<()> {
        Ok(())
    }
}
