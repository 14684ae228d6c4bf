//! Shares the result of one query among concurrent requests, because all users share the controller, and hundreds of
//! attempts may be polled or ended at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;
use trainyard_core::Result;

/// Last result of a query, and the requests that it is fresh enough for.
pub(super) struct SharedQuery<T> {
    requests: AtomicU64,
    /// Number of requests when the call began, and its result.
    last: Mutex<(u64, Option<Result<Arc<T>>>)>,
}

impl<T> SharedQuery<T> {
    pub fn new() -> Self {
        Self { requests: AtomicU64::new(0), last: Mutex::default() }
    }
    /// Returns the result of a call that began after this request. Requests that arrive during a call share the next
    /// call; the futures of all but one of them are dropped unpolled.
    pub async fn get(&self, call: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let (before, Some(result)) = &*last
            && number < *before
        {
            return result.clone();
        }
        let before = self.requests.load(Ordering::SeqCst);
        let result = call.await.map(Arc::new);
        *last = (before, Some(result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn requests_during_a_call_share_the_next_one() {
        let (shared, calls) = (SharedQuery::new(), AtomicU64::new(0));
        let request = async |after: u64| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let call = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Ok(calls.fetch_add(1, Ordering::SeqCst))
            };
            *shared.get(call).await.unwrap()
        };
        let results = futures::future::join_all([0, 10, 20, 30, 250].map(request)).await;
        assert_eq!(results, [0, 1, 1, 1, 2]);
    }
}
