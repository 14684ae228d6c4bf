//! Reasons why a detached attempt stops before its stage ends.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::attempt::{AttemptSpec, CancelRequest};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, ErrorKind};
use trainyard_runtime::lease::Unwanted;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Requested by a user.
    Cancelled,
    /// Deadline reached.
    TimedOut,
    /// The journal of the run was not written for this long.
    Orphaned(Duration),
    /// The run has ended.
    RunOver,
    /// Signal from outside.
    Signal(&'static str),
}

impl From<CancelRequest> for Stop {
    fn from(request: CancelRequest) -> Self {
        if request.timed_out { Self::TimedOut } else { Self::Cancelled }
    }
}

impl From<Unwanted> for Stop {
    fn from(why: Unwanted) -> Self {
        match why {
            Unwanted::Orphaned(silence) => Self::Orphaned(silence),
            Unwanted::RunOver => Self::RunOver,
        }
    }
}

impl Stop {
    /// Whether the run of the attempt seemed to be abandoned.
    pub fn is_of_a_run_without_a_writer(&self) -> bool {
        matches!(self, Self::Orphaned(_) | Self::RunOver)
    }
    /// Returns the outcome of the attempt and the error that describes it.
    pub fn explain(&self, spec: &AttemptSpec) -> (AttemptOutcome, Error) {
        match self {
            Self::Cancelled => (AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped")),
            Self::TimedOut => {
                let limit = spec.timeout_millis.map(|limit| format_duration(Duration::from_millis(limit)));
                let limit = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
                let error = Error::retryable(format!("the attempt did not end within its timeout{limit}"))
                    .help("raise `timeout`, or let the stage do less");
                (AttemptOutcome::TimedOut, error)
            }
            Self::Orphaned(silence) => {
                let silence = format_duration(*silence);
                let error = Error::lost(format!("its run has had no living writer for {silence}"))
                    .help(format!("`trainyard runs resume {}` goes on with the run", spec.run));
                (AttemptOutcome::Lost, error)
            }
            Self::RunOver => (AttemptOutcome::Lost, Error::lost("its run is over")),
            Self::Signal(name) => {
                (AttemptOutcome::Lost, Error::lost(format!("stopped by the machine's batch system ({name})")))
            }
        }
    }
}

/// Returns the outcome of an attempt that was not stopped.
pub fn outcome_of(error: &Error) -> AttemptOutcome {
    match error.kind {
        ErrorKind::Lost => AttemptOutcome::Lost,
        ErrorKind::Cancelled => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Failed,
    }
}

/// Returns the error of a second result.
pub fn stale(spec: &AttemptSpec) -> Error {
    Error::lost(format!("attempt {} of {} was ended by somebody else; this one is stale", spec.attempt, spec.stage))
}

/// Collects reasons to stop an attempt; the first one counts.
pub struct Stops {
    token: CancelToken,
    first: Mutex<Option<Stop>>,
    given: Condvar,
}

impl Stops {
    /// Starts without a reason; `token` is the one that the stage checks.
    pub fn new(token: CancelToken) -> Self {
        Self { token, first: Mutex::new(None), given: Condvar::new() }
    }
    /// Requests the stage to stop.
    pub fn stop(&self, why: Stop) {
        {
            // Set before the token, so that an observer of the token finds the reason.
            let mut first = self.first();
            if first.is_none() {
                tracing::info!(?why, "the attempt stops");
                *first = Some(why);
            }
        }
        self.token.cancel();
        self.given.notify_all();
    }
    /// Returns the reason, if there is one.
    pub fn why(&self) -> Option<Stop> {
        self.first().clone()
    }
    /// Blocks until there is a reason, at most for `limit`; returns false on timeout.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let first = self.first();
        let waits = |first: &mut Option<Stop>| first.is_none();
        match limit {
            None => drop(self.given.wait_while(first, waits)),
            Some(limit) => drop(self.given.wait_timeout_while(first, limit, waits)),
        }
        self.why().is_some()
    }

    fn first(&self) -> MutexGuard<'_, Option<Stop>> {
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
        let stops = Stops::new(token.clone());
        assert_eq!((stops.why(), token.is_cancelled()), (None, false));
        assert!(!stops.wait(Some(Duration::ZERO)), "nobody has stopped it");
        stops.stop(Stop::Signal("SIGTERM"));
        stops.stop(Stop::TimedOut);
        assert_eq!((stops.why(), token.is_cancelled()), (Some(Stop::Signal("SIGTERM")), true));
        assert!(stops.wait(None) && stops.wait(Some(Duration::ZERO)));
    }

    #[test]
    fn who_waits_hears_of_a_stop() {
        let stops = Arc::new(Stops::new(CancelToken::default()));
        let waiting = stops.clone();
        let waiter = std::thread::spawn(move || waiting.wait(None));
        stops.stop(Stop::Cancelled);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn a_request_names_its_reason() {
        for (timed_out, stop) in [(true, Stop::TimedOut), (false, Stop::Cancelled)] {
            assert_eq!(Stop::from(CancelRequest { format: 1, timed_out }), stop);
        }
    }
}
