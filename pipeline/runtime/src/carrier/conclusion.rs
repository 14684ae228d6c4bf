//! How an attempt ended, of all who have a say: what it left in the store counts most, then why it was stopped, then
//! what its executor says.

use super::deadlines::Why;
use crate::executors::Ended;
use crate::follow::Left;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_engine::Finished;

/// The end of an attempt that was followed in the store; `limit` is its timeout.
pub(super) fn conclude(left: Left, why: Option<Why>, ended: Option<Ended>, limit: Option<Duration>) -> Finished {
    if let Some(result) = left.result {
        return Finished::succeeded(result);
    }
    if let Some(failure) = left.failure {
        let outcome =
            if failure.outcome == AttemptOutcome::Succeeded { AttemptOutcome::Failed } else { failure.outcome };
        return Finished::failed(outcome, failure.error);
    }
    match (why, ended) {
        (Some(Why::Cancelled), _) => of(Ended::cancelled()),
        (Some(Why::TimedOut), _) => of(Ended::timed_out(limit)),
        // Out of memory, or an evicted machine, says more than the silence that it led to.
        (Some(Why::Silent { .. }), Some(ended))
            if ended.error.is_some() && ended.outcome != AttemptOutcome::Cancelled =>
        {
            of(ended)
        }
        (Some(Why::Silent { after }), _) => Finished::failed(AttemptOutcome::Lost, silent(after)),
        (None, ended) => of(ended.unwrap_or_else(Ended::well)),
    }
}

/// The end as an executor tells it. A success must come with its result.
pub(super) fn of(ended: Ended) -> Finished {
    match ended {
        Ended { outcome: AttemptOutcome::Succeeded, result: Some(result), .. } => Finished::succeeded(*result),
        Ended { outcome: AttemptOutcome::Succeeded, .. } => {
            let error = Error::lost("the attempt ended without a result").help("see its log");
            Finished::failed(AttemptOutcome::Lost, error)
        }
        Ended { outcome, error, .. } => {
            Finished::failed(outcome, error.unwrap_or_else(|| Error::lost("the attempt ended for an unknown reason")))
        }
    }
}

fn silent(after: Duration) -> Error {
    Error::lost(format!("the attempt gave no sign of life for {}", format_duration(after)))
        .help("its machine may be gone, or may not reach the store")
}
