//! Sources of the rollouts of a step.
//!
//! The loop of [`super::run`] takes the next batch from a source, learns from it, and notifies the source. Sources
//! differ in when rollouts are sampled, and under which weights; [`super::collect`] processes the groups.

mod asynchronous;
mod groups;
mod intake;
mod paced;
mod recorded;
mod schedule;
mod synchronous;
mod worker;

pub(super) use asynchronous::Asynchronous;
pub(super) use recorded::Recorded;
pub(super) use synchronous::Synchronous;

use super::collect::Collected;
use super::state::{Progress, Run};
use trainyard_core::Result;

/// Source of rollouts, step by step.
pub(super) trait Source {
    /// Returns the rollouts of the next update, with all values that the parts need.
    fn next(&mut self, run: &Run<'_>, progress: &mut Progress) -> Result<Collected>;
    /// Notifies the source of an update: subsequent sampling uses its weights.
    fn learned(&mut self, progress: &Progress) -> Result<()>;
}
