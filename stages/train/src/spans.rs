//! Defines the tracing span of a training step, which diagnostics (`--log debug`) show.

use tracing::span::EnteredSpan;

/// Enters the span of step `done` + 1 until the returned guard is dropped, and logs the start of the step.
pub fn step_span(done: u64) -> EnteredSpan {
    let span = tracing::info_span!("step", step = done + 1).entered();
    tracing::debug!("step started");
    span
}
