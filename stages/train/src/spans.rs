//! Tracing span of a training step, which diagnostics (`--log debug`) show.

use tracing::span::EnteredSpan;

/// Enters the span of the step after `done` steps, until the returned guard is dropped.
pub fn step_span(done: u64) -> EnteredSpan {
    let span = tracing::info_span!("step", step = done + 1).entered();
    tracing::debug!("step started");
    span
}
