//! Names the state of a run.

use trainyard_core::Clock;
use trainyard_core::event::RunOutcome;
use trainyard_engine::fold::{RunView, StageStatus};
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

/// Returns the milliseconds from the creation of a run to its end, to its last record, or, if its writer is alive, to
/// now.
pub fn elapsed_millis(view: &RunView, clock: &dyn Clock) -> i64 {
    let end = match view.finished {
        Some((at, _)) => at,
        None if is_live(view, clock) => clock.unix_millis(),
        None => view.writer.last_seen,
    };
    (end - view.created).max(0)
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

/// Returns the number of stages that are over, and of all stages. The own stage of a late fan-out does not count.
pub fn stages_over(view: &RunView) -> (usize, usize) {
    let counted = view.stages.iter().filter(|stage| stage.status != StageStatus::Expanded);
    counted.fold((0, 0), |(over, all), stage| (over + usize::from(stage.status.is_final()), all + 1))
}
