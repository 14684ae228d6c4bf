//! Defines the reasons for which an attempt stops before its stage ends, and how a thread requests the stop.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::attempt::{AttemptSpec, CancelRequest};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, ErrorKind};
use trainyard_runtime::lease::LeaseEnd;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptStop {
    /// A user requested the stop.
    Cancelled,
    /// The deadline was reached.
    TimedOut,
    /// The journal of the run was not written for this time.
    Orphaned(Duration),
    /// The run has ended.
    RunEnded,
    /// The process received this signal.
    Signal(&'static str),
}

impl From<CancelRequest> for AttemptStop {
    fn from(request: CancelRequest) -> Self {
        if request.timed_out { Self::TimedOut } else { Self::Cancelled }
    }
}

impl From<LeaseEnd> for AttemptStop {
    fn from(why: LeaseEnd) -> Self {
        match why {
            LeaseEnd::Orphaned(silence) => Self::Orphaned(silence),
            LeaseEnd::RunOver => Self::RunEnded,
        }
    }
}

impl AttemptStop {
    /// Returns whether the attempt's run seemed to be abandoned.
    pub fn is_abandoned(&self) -> bool {
        matches!(self, Self::Orphaned(_) | Self::RunEnded)
    }
    /// Returns the outcome of the stopped attempt and the error that describes it.
    pub fn explain(&self, spec: &AttemptSpec) -> (AttemptOutcome, Error) {
        match self {
            Self::Cancelled => (AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped")),
            Self::TimedOut => {
                let limit = spec.timeout_millis.map(|limit| format_duration(Duration::from_millis(limit)));
                let limit = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
                let error = Error::retryable(format!("the attempt did not end within its timeout{limit}"))
                    .help("raise `timeout`, or reduce the work of the stage");
                (AttemptOutcome::TimedOut, error)
            }
            Self::Orphaned(silence) => {
                let silence = format_duration(*silence);
                let error = Error::lost(format!("its run has had no living writer for {silence}"))
                    .help(format!("`trainyard runs resume {}` resumes the run", spec.run));
                (AttemptOutcome::Lost, error)
            }
            Self::RunEnded => (AttemptOutcome::Lost, Error::lost("its run is over")),
            Self::Signal(name) => {
                let error = Error::lost(format!("stopped by the machine's batch system ({name})"));
                (AttemptOutcome::Lost, error.by_preemption())
            }
        }
    }
}

/// Returns the outcome of an attempt that failed without being stopped.
pub fn outcome_of(error: &Error) -> AttemptOutcome {
    match error.kind {
        ErrorKind::Lost => AttemptOutcome::Lost,
        ErrorKind::Cancelled => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Failed,
    }
}

/// Returns the error of a process whose attempt has ended in another process.
pub fn stale(spec: &AttemptSpec) -> Error {
    Error::lost(format!("attempt {} of {} was ended by another process; this one is stale", spec.attempt, spec.stage))
}

/// Collects reasons to stop an attempt. Only the first one counts.
pub struct StopSignal {
    token: CancelToken,
    first: Mutex<Option<AttemptStop>>,
    signaled: Condvar,
}

impl StopSignal {
    /// Creates a signal without a reason. `token` is the token that the stage checks.
    pub fn new(token: CancelToken) -> Self {
        Self { token, first: Mutex::new(None), signaled: Condvar::new() }
    }
    /// Records a reason, unless there is one, and cancels the token.
    pub fn stop(&self, why: AttemptStop) {
        {
            // The reason is set before the token, so that an observer of the token finds the reason.
            let mut first = self.first();
            if first.is_none() {
                tracing::info!(?why, "the attempt stops");
                *first = Some(why);
            }
        }
        self.token.cancel();
        self.signaled.notify_all();
    }
    /// Returns the first reason, if any.
    pub fn reason(&self) -> Option<AttemptStop> {
        self.first().clone()
    }
    /// Blocks until there is a reason, at most for `limit` (`None` = without a limit). Returns false on timeout.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let first = self.first();
        let waits = |first: &mut Option<AttemptStop>| first.is_none();
        match limit {
            None => drop(self.signaled.wait_while(first, waits)),
            Some(limit) => drop(self.signaled.wait_timeout_while(first, limit, waits)),
        }
        self.reason().is_some()
    }

    fn first(&self) -> MutexGuard<'_, Option<AttemptStop>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_reason_counts_and_sets_the_token() {
        let token = CancelToken::default();
        let stops = StopSignal::new(token.clone());
        assert_eq!((stops.reason(), token.is_cancelled()), (None, false));
        assert!(!stops.wait(Some(Duration::ZERO)), "not stopped yet");
        stops.stop(AttemptStop::Signal("SIGTERM"));
        stops.stop(AttemptStop::TimedOut);
        assert_eq!((stops.reason(), token.is_cancelled()), (Some(AttemptStop::Signal("SIGTERM")), true));
        assert!(stops.wait(None) && stops.wait(Some(Duration::ZERO)));
    }

    #[test]
    fn stop_wakes_waiters() {
        let stops = Arc::new(StopSignal::new(CancelToken::default()));
        let waiting = stops.clone();
        let waiter = std::thread::spawn(move || waiting.wait(None));
        stops.stop(AttemptStop::Cancelled);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn cancel_request_becomes_a_reason() {
        for (timed_out, stop) in [(true, AttemptStop::TimedOut), (false, AttemptStop::Cancelled)] {
            assert_eq!(AttemptStop::from(CancelRequest { format: 1, timed_out }), stop);
        }
    }
}
