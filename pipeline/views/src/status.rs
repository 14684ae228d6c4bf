//! Names the state of a run.

use trainyard_core::Clock;
use trainyard_core::event::RunOutcome;
use trainyard_engine::fold::RunView;
use trainyard_runtime::resume::{WriterState, writer_state};

/// Status of a run whose journal cannot be read.
pub const DAMAGED: &str = "damaged";

/// Returns the displayed status of a run. An unfinished run is `running` while its writer is alive.
pub fn state(view: &RunView, clock: &dyn Clock) -> &'static str {
    match (view.finished, writer_state(&view.writer, clock)) {
        (None, WriterState::Alive) => "running",
        _ => status(view),
    }
}

/// Returns whether a run has ended, or its writer is alive.
pub fn is_live(view: &RunView, clock: &dyn Clock) -> bool {
    view.finished.is_some() || writer_state(&view.writer, clock) == WriterState::Alive
}

/// Returns `succeeded`, `failed`, `cancelled` (the names in `on` of a notification), or `unfinished`.
pub fn status(view: &RunView) -> &'static str {
    outcome_name(view.finished.map(|(_, outcome)| outcome))
}

/// Returns the name of an outcome; `unfinished` without one.
pub fn outcome_name(outcome: Option<RunOutcome>) -> &'static str {
    match outcome {
        Some(RunOutcome::Succeeded) => "succeeded",
        Some(RunOutcome::Failed) => "failed",
        Some(RunOutcome::Cancelled) => "cancelled",
        None => "unfinished",
    }
}
