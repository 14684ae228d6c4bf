//! Retries of store operations: how often, and after which waits.
//!
//! Lookups, results, publication and the journal use the same waits, so an outage that the journal survives costs no
//! finished attempt. Only retryable errors are retried.

use std::time::Duration;
use trainyard_core::{ErrorKind, Result};

/// Waits between the tries, 17 seconds in all. Each try makes several requests already.
pub(crate) const WAITS: [Duration; 6] =
    [millis(100), millis(300), millis(1_000), millis(3_000), millis(5_000), millis(8_000)];
/// Waits for what is not worth 17 seconds.
pub(crate) const SHORT_WAITS: [Duration; 3] = [millis(100), millis(300), millis(1_000)];

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Asks until the answer is not a retryable error or the waits are used up. Returns the last answer.
pub(crate) async fn patiently<T, F: Future<Output = Result<T>>>(
    waits: &[Duration],
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    for wait in waits {
        match ask().await {
            Err(error) if error.kind == ErrorKind::Retryable => {
                tracing::info!(wait_ms = wait.as_millis() as u64, %error, "the store failed, trying again");
                tokio::time::sleep(*wait).await;
            }
            answer => return answer,
        }
    }
    ask().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Error;

    /// How often it asked, and the last answer, of a store that fails `failures` times.
    async fn tries(failures: u32, error: Error) -> (u32, Result<u32>) {
        let (mut asked, waits) = (0, [Duration::ZERO; 3]);
        let answer = patiently(&waits, || {
            asked += 1;
            let answer = if asked > failures { Ok(asked) } else { Err(error.clone()) };
            async { answer }
        });
        let answer = answer.await;
        (asked, answer)
    }

    #[tokio::test]
    async fn only_retryable_errors_are_retried_and_not_forever() {
        let passing = Error::retryable("503");
        assert_eq!(tries(2, passing.clone()).await, (3, Ok(3)));
        assert_eq!(tries(9, passing.clone()).await, (4, Err(passing)));
        let lasting = Error::invalid("403");
        assert_eq!(tries(9, lasting.clone()).await, (1, Err(lasting)));
    }
}
