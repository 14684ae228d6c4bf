//! Why an attempt that nobody holds stops before its stage ends.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_api::CancelToken;
use trainyard_core::attempt::{AttemptSpec, CancelRequest};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Error, ErrorKind};
use trainyard_runtime::lease::Unwanted;

/// Why an attempt stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// Its time is up.
    TimedOut,
    /// Nobody has written its run's journal for this long.
    Orphaned(Duration),
    /// Its run has ended.
    RunOver,
    /// A signal from outside.
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
    /// Whether nobody seemed to want the attempt any more.
    pub fn is_of_a_run_without_a_writer(&self) -> bool {
        matches!(self, Self::Orphaned(_) | Self::RunOver)
    }
    /// How the attempt ended, and the error that says so.
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

/// How an attempt ended that nobody stopped.
pub fn outcome_of(error: &Error) -> AttemptOutcome {
    match error.kind {
        ErrorKind::Lost => AttemptOutcome::Lost,
        ErrorKind::Cancelled => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Failed,
    }
}

/// The error of a result that came second.
pub fn stale(spec: &AttemptSpec) -> Error {
    Error::lost(format!("attempt {} of {} was ended by somebody else; this one is stale", spec.attempt, spec.stage))
}

/// Where all that may stop an attempt say so; the first reason counts.
pub struct Stops {
    token: CancelToken,
    first: Mutex<Option<Stop>>,
    given: Condvar,
}

impl Stops {
    /// Nobody has asked yet; `token` is what the stage looks at.
    pub fn new(token: CancelToken) -> Self {
        Self { token, first: Mutex::new(None), given: Condvar::new() }
    }
    /// Asks the stage to stop.
    pub fn stop(&self, why: Stop) {
        {
            // Before the token, so that whoever sees that finds the reason.
            let mut first = self.first();
            if first.is_none() {
                tracing::info!(?why, "the attempt stops");
                *first = Some(why);
            }
        }
        self.token.cancel();
        self.given.notify_all();
    }
    /// The reason, if there is one.
    pub fn why(&self) -> Option<Stop> {
        self.first().clone()
    }
    /// Blocks until there is a reason, at most as long as `limit`; false if the time is up.
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
