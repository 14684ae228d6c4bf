//! Where the rollouts of a step come from.
//!
//! The loop of [`super::run`] asks a source for the next batch, learns from it, and tells the source. Sources differ in
//! when rollouts are sampled, and under which weights; what becomes of a group is [`super::collect`]'s.

mod asynchronous;
mod groups;
mod intake;
mod options;
mod paced;
mod recorded;
mod schedule;
mod synchronous;
mod worker;

pub(super) use asynchronous::Asynchronous;
pub use options::Asynchronous as AsynchronousOptions;
pub(super) use recorded::Recorded;
pub(super) use synchronous::Synchronous;

use super::collect::Collected;
use super::state::{Progress, Run};
use trainyard_core::Result;

/// Gives the rollouts of one step after the other.
pub(super) trait Source {
    /// The rollouts of the next update, with everything that the parts need to know of them.
    fn next(&mut self, run: &Run<'_>, progress: &mut Progress) -> Result<Collected>;
    /// The update is done: what is sampled from now on is sampled under its weights.
    fn learned(&mut self, progress: &Progress) -> Result<()>;
}
