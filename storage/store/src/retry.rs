//! Retries requests with a transient error until the response is conclusive or the outage exceeds its limit.
//!
//! Below this layer, `object_store` retries each request a few times within about a second. That suffices for a lost
//! packet, but a server restart takes minutes.

use crate::error::{is_auth_error, is_final};
use async_trait::async_trait;
use object_store::client::HttpErrorKind;
use object_store::retry::{RetryContext, RetryFailure, RetryPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trainyard_core::Clock;

/// Retry policy of a connection: requests with a transient error are retried until an outage has lasted this long.
#[derive(Clone)]
pub(crate) struct OutagePolicy {
    outage: Duration,
    clock: Arc<dyn Clock>,
    /// Whether the outage was reported. All requests share the flag, so an outage is reported once.
    reported: Arc<AtomicBool>,
}

/// Retry state of one request.
pub(crate) struct RetryState<'a> {
    policy: &'a OutagePolicy,
    /// Minimum number of attempts, even if the outage limit is zero.
    min_attempts: u32,
    attempts: u32,
    /// Start of the first attempt, by the monotonic clock.
    since: Duration,
    /// Time of the first refusal of the credentials, if the last attempt was refused.
    refused: Option<Duration>,
}

/// Longest time for a renewal of refused credentials. A permanently missing permission should be reported sooner than
/// an outage.
const RENEWAL: Duration = Duration::from_secs(120);

impl OutagePolicy {
    /// Returns a policy with an outage limit of zero.
    pub fn none(clock: &Arc<dyn Clock>) -> Self {
        Self { outage: Duration::ZERO, clock: clock.clone(), reported: Arc::default() }
    }
    /// Returns the policy with this outage limit.
    pub fn with_outage(&self, outage: Duration) -> Self {
        Self { outage, ..self.clone() }
    }
    /// Begins a request with this minimum number of attempts.
    pub fn start_request(&self, min_attempts: u32) -> RetryState<'_> {
        RetryState { policy: self, min_attempts, attempts: 0, since: self.clock.monotonic(), refused: None }
    }
    /// Returns the same rule for the parts of an upload, which only `object_store` can retry.
    pub fn upload_policy(&self) -> Arc<dyn RetryPolicy> {
        Arc::new(UploadRetry { outage: self.outage })
    }
}

impl RetryState<'_> {
    /// Waits after a failed attempt and returns true if another attempt should follow; returns false at once otherwise.
    pub async fn wait_to_retry(&mut self, url: &str, error: &object_store::Error) -> bool {
        self.attempts += 1;
        let now = self.policy.clock.monotonic();
        let elapsed = now.saturating_sub(self.since);
        self.refused = is_auth_error(error).then(|| self.refused.unwrap_or(now));
        let renewable = self.refused.is_some_and(|since| now.saturating_sub(since) < RENEWAL);
        let is_transient_error = !is_final(error) || renewable;
        let below_min = !is_final(error) && self.attempts < self.min_attempts;
        if !below_min && (!is_transient_error || elapsed >= self.policy.outage) {
            return false;
        }
        tracing::debug!(url, tries = self.attempts, error = error as &dyn std::error::Error, "a request failed");
        if elapsed >= QUIET_PERIOD && !self.policy.reported.swap(true, Ordering::Relaxed) {
            let seconds = self.policy.outage.as_secs();
            tracing::warn!(url, %error, "the store does not respond, retrying for up to {seconds} s");
        }
        tokio::time::sleep(wait(self.attempts)).await;
        true
    }
    /// Records a conclusive response, which ends an outage.
    pub fn record_response(&self, url: &str) {
        if self.attempts > 0 && self.policy.reported.swap(false, Ordering::Relaxed) {
            tracing::warn!(url, "the store responds again");
        }
    }
}

/// Outages shorter than this are not reported.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// Returns the delay before the next attempt: from 20 ms, doubling up to 10 s.
fn wait(attempts: u32) -> Duration {
    Duration::from_millis(10 << attempts.clamp(1, 10))
}

fn is_transient(failure: RetryFailure, elapsed: Duration) -> bool {
    match failure {
        RetryFailure::Status(status) => match status.as_u16() {
            401 | 403 => elapsed < RENEWAL,
            code => code == 429 || status.is_server_error(),
        },
        RetryFailure::Transport(kind) => kind != HttpErrorKind::Decode,
        _ => false,
    }
}

#[derive(Debug)]
struct UploadRetry {
    outage: Duration,
}

#[async_trait]
impl RetryPolicy for UploadRetry {
    async fn retry(&self, part: RetryContext) -> bool {
        let again = is_transient(part.failure, part.elapsed) && part.elapsed < self.outage;
        if again {
            tokio::time::sleep(wait(u32::try_from(part.attempt).unwrap_or(u32::MAX))).await;
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::clock::ManualClock;

    fn unclear() -> object_store::Error {
        object_store::Error::Generic { store: "test", source: "503 Service Unavailable".into() }
    }

    #[tokio::test]
    async fn request_is_retried_until_the_outage_limit() {
        let clock = Arc::new(ManualClock::at_millis(0));
        let injected: Arc<dyn Clock> = clock.clone();
        let patience = OutagePolicy::none(&injected).with_outage(Duration::from_secs(60));
        let mut tries = patience.start_request(1);
        for _ in 0..3 {
            assert!(tries.wait_to_retry("memory://x", &unclear()).await);
            clock.advance(Duration::from_secs(19));
        }
        clock.advance(Duration::from_secs(3));
        assert!(!tries.wait_to_retry("memory://x", &unclear()).await, "60 s are over");
        assert!(
            patience.start_request(1).wait_to_retry("memory://x", &unclear()).await,
            "each request has its own time"
        );
    }

    #[tokio::test]
    async fn request_without_outage_limit_has_few_attempts() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_millis(0));
        let none = OutagePolicy::none(&clock);
        let mut tries = none.start_request(2);
        assert!(tries.wait_to_retry("memory://x", &unclear()).await);
        assert!(!tries.wait_to_retry("memory://x", &unclear()).await);
        let missing = object_store::Error::NotFound { path: "x".into(), source: "404".into() };
        assert!(!none.with_outage(Duration::MAX).start_request(4).wait_to_retry("memory://x", &missing).await);
    }

    #[tokio::test]
    async fn refused_credentials_have_two_minutes_to_be_renewed() {
        let clock = Arc::new(ManualClock::at_millis(0));
        let injected: Arc<dyn Clock> = clock.clone();
        let patience = OutagePolicy::none(&injected).with_outage(Duration::from_secs(600));
        let refused = || object_store::Error::PermissionDenied { path: "x".into(), source: "403 Forbidden".into() };
        let mut tries = patience.start_request(1);
        assert!(tries.wait_to_retry("memory://x", &unclear()).await);
        clock.advance(Duration::from_secs(300));
        assert!(tries.wait_to_retry("memory://x", &refused()).await, "it was away before it refused");
        clock.advance(Duration::from_secs(119));
        assert!(tries.wait_to_retry("memory://x", &refused()).await);
        clock.advance(Duration::from_secs(1));
        assert!(!tries.wait_to_retry("memory://x", &refused()).await);
        let impatient = OutagePolicy::none(&injected);
        assert!(
            !impatient.start_request(4).wait_to_retry("memory://x", &refused()).await,
            "opening a store reports it at once"
        );
    }

    #[test]
    fn waits_double_up_to_ten_seconds() {
        let waits = [1, 2, 3, 10, 11, u32::MAX].map(|tries| wait(tries).as_millis());
        assert_eq!(waits, [20, 40, 80, 10_240, 10_240, 10_240]);
    }

    #[test]
    fn parts_of_an_upload_are_repeated_after_what_may_pass() {
        assert!(is_transient(RetryFailure::Transport(HttpErrorKind::Timeout), Duration::MAX));
        assert!(!is_transient(RetryFailure::Transport(HttpErrorKind::Decode), Duration::ZERO));
    }
}
