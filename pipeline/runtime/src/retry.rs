//! Retries store operations, with the delays between the tries.
//!
//! A run's [`Store`] itself retries its requests while the store is unavailable
//! ([`trainyard_store::StoreOptions::outage`]). The limit is the same for the journal and for all other requests, so an
//! outage that the journal survives loses no finished attempt. This module covers the errors that the store does not
//! wait for, such as a full disk. Only retryable errors are retried.

use std::time::Duration;
use trainyard_core::{ErrorKind, Result};
use trainyard_store::Store;

/// Delays between the tries, 17 seconds in all. Each try already makes several requests.
pub(crate) const RETRY_DELAYS: [Duration; 6] =
    [millis(100), millis(300), millis(1_000), millis(3_000), millis(5_000), millis(8_000)];
/// Delays for operations that do not justify 17 seconds.
pub(crate) const SHORT_RETRY_DELAYS: [Duration; 3] = [millis(100), millis(300), millis(1_000)];

/// Returns the delay after a number of consecutive failures that may last for a while: from 1 s, doubling up to 30 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    millis(1_000 << failures.clamp(1, 6).saturating_sub(1)).min(millis(30_000))
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Start time of a store request.
pub(crate) struct RequestTimer<'a> {
    store: &'a Store,
    at: Duration,
}

impl<'a> RequestTimer<'a> {
    pub fn now(store: &'a Store) -> Self {
        Self { store, at: store.options().clock.monotonic() }
    }
    /// Returns whether the store has retried the request for as long as it tolerates an outage.
    pub fn outage_exceeded(&self) -> bool {
        let options = self.store.options();
        !options.outage.is_zero() && options.clock.monotonic().saturating_sub(self.at) >= options.outage
    }
}

/// Retries until the result is not a retryable error, the store was unavailable for too long, or the delays are used
/// up. Returns the last result.
pub(crate) async fn with_retries<T, F: Future<Output = Result<T>>>(
    store: &Store,
    delays: &[Duration],
    mut operation: impl FnMut() -> F,
) -> Result<T> {
    for delay in delays {
        let timer = RequestTimer::now(store);
        match operation().await {
            Err(error) if error.kind == ErrorKind::Retryable && !timer.outage_exceeded() => {
                tracing::info!(delay_ms = delay.as_millis() as u64, %error, "the store failed, trying again");
                tokio::time::sleep(*delay).await;
            }
            result => return result,
        }
    }
    operation().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trainyard_core::Error;
    use trainyard_core::clock::ManualClock;
    use trainyard_store::StoreOptions;

    /// Returns the number of tries and the last result, with a store that tolerates an outage of `outage` seconds and
    /// fails `failures` times, each after `each` seconds.
    async fn tries_of(outage: u64, each: u64, failures: u32, error: Error) -> (u32, Result<u32>) {
        let clock = Arc::new(ManualClock::at_millis(0));
        let options =
            StoreOptions { outage: Duration::from_secs(outage), clock: clock.clone(), ..StoreOptions::default() };
        let store = Store::open("memory://", options).await.unwrap();
        let (mut calls, delays) = (0, [Duration::ZERO; 3]);
        let result = with_retries(&store, &delays, || {
            calls += 1;
            clock.advance(Duration::from_secs(each));
            let result = if calls > failures { Ok(calls) } else { Err(error.clone()) };
            async { result }
        });
        let result = result.await;
        (calls, result)
    }

    async fn tries(failures: u32, error: Error) -> (u32, Result<u32>) {
        tries_of(0, 1, failures, error).await
    }

    #[tokio::test]
    async fn no_retry_after_an_exhausted_outage() {
        let unavailable = Error::retryable("503");
        assert_eq!(tries_of(60, 60, 9, unavailable.clone()).await, (1, Err(unavailable.clone())));
        assert_eq!(
            tries_of(60, 59, 9, unavailable.clone()).await,
            (4, Err(unavailable)),
            "it failed for another reason"
        );
    }

    #[tokio::test]
    async fn only_retryable_errors_are_retried_up_to_a_limit() {
        let transient = Error::retryable("503");
        assert_eq!(tries(2, transient.clone()).await, (3, Ok(3)));
        assert_eq!(tries(9, transient.clone()).await, (4, Err(transient)));
        let permanent = Error::invalid("403");
        assert_eq!(tries(9, permanent.clone()).await, (1, Err(permanent)));
    }
}
