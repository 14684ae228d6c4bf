//! Decides how an attempt ended, from the objects that it left in the store, the reason why the engine stopped it, and
//! the report of its executor.
//!
//! A result in the store always wins. A failure in the store comes next, unless the executor knows a more specific
//! cause. Without either, the reason of the stop takes precedence over the report, except that a reported cause
//! explains a silent attempt.

use super::deadlines::AttemptStopReason;
use crate::attempt_reader::FinalObjects;
use crate::executors::AttemptExit;
use std::time::Duration;
use trainyard_core::attempt::AttemptFailure;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, ErrorKind};
use trainyard_engine::AttemptCompletion;

/// Returns the end of an attempt that was followed in the store; `limit` is its timeout.
pub(super) fn conclude(
    objects: FinalObjects,
    why: Option<AttemptStopReason>,
    ended: Option<AttemptExit>,
    limit: Option<Duration>,
) -> AttemptCompletion {
    if let Some(result) = objects.result {
        return AttemptCompletion::succeeded(result);
    }
    if let Some(failure) = objects.failure {
        if let (None, Some(ended)) = (why, ended.filter(|ended| has_better_reason(ended, &failure))) {
            return from_executor(ended);
        }
        let outcome =
            if failure.outcome == AttemptOutcome::Succeeded { AttemptOutcome::Failed } else { failure.outcome };
        return AttemptCompletion::failed(outcome, failure.error);
    }
    match (why, ended) {
        (Some(AttemptStopReason::Cancelled), _) => from_executor(AttemptExit::cancelled()),
        (Some(AttemptStopReason::TimedOut), _) => from_executor(AttemptExit::timed_out(limit)),
        (Some(AttemptStopReason::Waited { limit }), _) => wait_timed_out(limit),
        // Out of memory, or an evicted machine, explains the silence.
        (Some(AttemptStopReason::Silent { .. }), Some(ended))
            if ended.error.is_some() && ended.outcome != AttemptOutcome::Cancelled =>
        {
            from_executor(ended)
        }
        (Some(AttemptStopReason::Silent { after }), _) => {
            AttemptCompletion::failed(AttemptOutcome::Lost, silent(after))
        }
        (None, ended) => from_executor(ended.unwrap_or_else(AttemptExit::succeeded_unread)),
    }
}

/// Returns whether the executor knows a better reason than an attempt that only received a signal: out of memory,
/// preemption, the time limit, or a user's command. A bare exit code is no reason.
fn has_better_reason(ended: &AttemptExit, failure: &AttemptFailure) -> bool {
    match ended.error.as_ref().map(|error| error.kind) {
        Some(ErrorKind::Invalid) => true,
        Some(ErrorKind::Bug) | None => false,
        Some(_) => failure.outcome == AttemptOutcome::Lost,
    }
}

/// Returns the end as reported by an executor. A success must have a result.
pub(super) fn from_executor(ended: AttemptExit) -> AttemptCompletion {
    match ended {
        AttemptExit { outcome: AttemptOutcome::Succeeded, result: Some(result), .. } => {
            AttemptCompletion::succeeded(*result)
        }
        AttemptExit { outcome: AttemptOutcome::Succeeded, .. } => {
            let error = Error::lost("the attempt ended without a result").help("see its log");
            AttemptCompletion::failed(AttemptOutcome::Lost, error)
        }
        AttemptExit { outcome, error, .. } => AttemptCompletion::failed(
            outcome,
            error.unwrap_or_else(|| Error::lost("the attempt ended for an unknown reason")),
        ),
    }
}

/// Returns the end of an attempt that got no machine in time.
pub(super) fn wait_timed_out(limit: Duration) -> AttemptCompletion {
    let error = Error::retryable(format!("no machine accepted the attempt within {}", format_duration(limit)))
        .help("raise `wait` under `resources`, or request less");
    AttemptCompletion::failed(AttemptOutcome::TimedOut, error)
}

fn silent(after: Duration) -> Error {
    Error::lost(format!("the attempt sent no heartbeat for {}", format_duration(after))).help(
        "check that its machine runs and reaches the store; if attempts of its pool start slowly, raise \
             `first_heartbeat` of the pool",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::{RunId, StageKey};

    fn left(outcome: AttemptOutcome, error: Error) -> FinalObjects {
        let (run, stage) = (RunId("r".into()), StageKey("s".into()));
        let failure = AttemptFailure { format: 1, run, stage, attempt: 1, outcome, error, unwanted: false };
        FinalObjects { result: None, failure: Some(failure) }
    }

    #[test]
    fn executor_reason_overrides_a_bare_signal() {
        use AttemptOutcome::{Cancelled, Failed, Lost, TimedOut};
        let signal = || left(Lost, Error::lost("stopped by SIGTERM"));
        let killed = || left(Failed, Error::data("the command ended with signal 9"));
        for (objects, outcome, error, believed) in [
            (signal(), TimedOut, Error::retryable("time limit"), true),
            (signal(), Lost, Error::lost("preempted"), true),
            (signal(), Cancelled, Error::cancelled("by user 7"), true),
            (signal(), Failed, Error::bug("ended with exit code 1"), false),
            (killed(), Failed, Error::invalid("out of memory"), true),
            (killed(), Failed, Error::bug("ended with exit code 1"), false),
            (killed(), Lost, Error::lost("its node failed"), false),
        ] {
            let finished = conclude(objects.clone(), None, Some(AttemptExit::with_error(outcome, error.clone())), None);
            assert_eq!(finished.error.as_ref() == Some(&error), believed, "{outcome:?}: {:?}", finished.error);
            let cancelled = conclude(
                objects.clone(),
                Some(AttemptStopReason::Cancelled),
                Some(AttemptExit::with_error(outcome, error.clone())),
                None,
            );
            assert_eq!(cancelled.error, objects.failure.map(|failure| failure.error), "the run itself ended it");
        }
        let unread = conclude(signal(), None, Some(AttemptExit::succeeded_unread()), None);
        assert_eq!(unread.error.map(|error| error.message).as_deref(), Some("stopped by SIGTERM"));
    }
}
