//! Rollouts sampled when a step needs them, under the weights that it updates.

use super::Source;
use crate::stages::rl::collect::Collected;
use crate::stages::rl::state::{Progress, Run};
use trainyard_core::Result;

pub(crate) struct Synchronous;

impl Source for Synchronous {
    fn next(&mut self, run: &Run<'_>, progress: &mut Progress) -> Result<Collected> {
        progress.refresh_sampler()?;
        run.collect(progress)
    }
    fn learned(&mut self, _progress: &Progress) -> Result<()> {
        Ok(())
    }
}
