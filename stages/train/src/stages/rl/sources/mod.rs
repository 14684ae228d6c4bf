//! Defines the sources of the rollouts of a step.
//!
//! The loop of [`super::run`] takes the next batch from a source, learns from it, and notifies the source. Sources
//! differ in the time at which rollouts are sampled and in the weights that sample them; [`super::collect`] processes
//! the groups.

mod async_source;
mod groups;
mod pending_groups;
mod recorded_source;
mod replay_schedule;
mod scheduled_sampler;
mod sync_source;
mod worker;

pub(super) use async_source::AsyncSource;
pub(super) use recorded_source::RecordedSource;
pub(super) use sync_source::SyncSource;

use super::collect::RolloutBatch;
use super::state::{RlProgress, RlRun};
use trainyard_core::Result;

/// Source of rollouts, step by step.
pub(super) trait RolloutSource {
    /// Returns the rollouts of the next update, with all values that the parts need.
    fn next(&mut self, run: &RlRun<'_>, progress: &mut RlProgress) -> Result<RolloutBatch>;
    /// Notifies the source of an update: subsequent sampling uses its weights.
    fn learned(&mut self, progress: &RlProgress) -> Result<()>;
}
