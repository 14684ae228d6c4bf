//! Shared answer for concurrent requests: all users share the controller, and hundreds of attempts may be polled or
//! ended at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;
use trainyard_core::Result;

/// The last answer to a question, and which askers it is fresh enough for.
pub(super) struct SharedQuery<T> {
    requests: AtomicU64,
    /// How many had asked when the call began.
    last: Mutex<(u64, Option<Result<Arc<T>>>)>,
}

impl<T> SharedQuery<T> {
    pub fn new() -> Self {
        Self { requests: AtomicU64::new(0), last: Mutex::default() }
    }
    /// The answer of a call that began after this one. Those who ask while a call is under way share the next.
    pub async fn get(&self, call: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let asker = self.requests.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let (before, Some(answer)) = &*last
            && asker < *before
        {
            return answer.clone();
        }
        let before = self.requests.load(Ordering::SeqCst);
        let answer = call.await.map(Arc::new);
        *last = (before, Some(answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_during_a_call_share_the_next_one() {
        let (shared, calls) = (SharedQuery::new(), AtomicU64::new(0));
        let ask = async |after: u64| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let call = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(calls.fetch_add(1, Ordering::SeqCst))
            };
            *shared.get(call).await.unwrap()
        };
        let answers = futures::future::join_all([0, 10, 20, 30, 250].map(ask)).await;
        assert_eq!(answers, [0, 1, 1, 1, 2]);
    }
}
