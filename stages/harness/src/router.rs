//! Routes requests to their episodes. Every episode has a separate path on the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::Secret;
use trainyard_model_api::{Caller, ModelApiError, ModelCard, ModelHandler, PendingRequest};

/// Requests of one episode that wait for the sampling loop, in the order of arrival, and its refused requests.
pub struct EpisodeQueue {
    key: Secret,
    requests: Mutex<VecDeque<PendingRequest>>,
    arrived: Condvar,
    refusals: Mutex<Refusals>,
}

/// Requests that were refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    pub count: u32,
    pub last: Option<ModelApiError>,
}

impl EpisodeQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<PendingRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes the next request, or returns `None` if no request waits.
    pub fn next(&self) -> Option<PendingRequest> {
        self.lock().pop_front()
    }
    /// Blocks until a request waits, at most for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let waited = self.arrived.wait_timeout_while(self.lock(), timeout, |requests| requests.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
    /// Counts a refused request.
    pub fn record_refusal(&self, refusal: &ModelApiError) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count += 1;
        refusals.last = Some(refusal.clone());
    }
    /// Returns the requests that were refused so far.
    pub fn refusals(&self) -> Refusals {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Queues of all episodes by their paths.
#[derive(Default)]
pub struct EpisodeRouter(Mutex<BTreeMap<String, Arc<EpisodeQueue>>>);

impl EpisodeRouter {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EpisodeQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Creates the queue of the episode with the path `base`, whose program has `key`.
    pub fn add(&self, base: &str, key: Secret) -> Arc<EpisodeQueue> {
        let (requests, arrived, refusals) = Default::default();
        let queue = Arc::new(EpisodeQueue { key, requests, arrived, refusals });
        self.lock().insert(base.to_string(), Arc::clone(&queue));
        queue
    }
    /// Removes the queue of an ended episode, so that later requests are rejected.
    pub fn remove(&self, base: &str) {
        self.lock().remove(base);
    }
    /// Returns the queue of the episode to which a path belongs.
    fn find(&self, path: &str) -> Option<Arc<EpisodeQueue>> {
        // `/e/7-…`, with the path of an API after it.
        let end = path.match_indices('/').nth(2).map_or(path.len(), |(at, _)| at);
        self.lock().get(&path[..end]).cloned()
    }
    fn queue(&self, caller: &Caller) -> Result<Arc<EpisodeQueue>, ModelApiError> {
        let not_found = || {
            let message = "the episode does not exist or has ended; use the base URL in OPENAI_BASE_URL or \
                           ANTHROPIC_BASE_URL";
            ModelApiError::new(404, message)
        };
        self.lock().get(&caller.base).cloned().ok_or_else(not_found)
    }
}

impl ModelHandler for EpisodeRouter {
    fn models(&self, caller: &Caller) -> Result<Vec<ModelCard>, ModelApiError> {
        self.queue(caller)?;
        Ok(vec![ModelCard { name: "policy".to_string(), positions: None }])
    }
    fn accepts_any_model(&self) -> bool {
        true
    }
    fn key(&self, base: &str) -> Option<Secret> {
        self.lock().get(base).map(|queue| queue.key.clone())
    }
    fn record_refusal(&self, caller: &Caller, refusal: &ModelApiError) {
        if let Some(queue) = self.find(&caller.base) {
            queue.record_refusal(refusal);
        }
    }
    fn handle(&self, pending: PendingRequest) {
        match self.queue(&pending.caller) {
            Err(refusal) => pending.reply.fail(refusal),
            Ok(queue) => {
                queue.lock().push_back(pending);
                queue.arrived.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_belong_to_the_episode_of_their_path() {
        let router = EpisodeRouter::default();
        let [first, second] = ["/e/1-a", "/e/1-ab"].map(|base| router.add(base, Secret::new(base)));
        let refuse = |base: &str, message: &str| {
            let caller = Caller { base: base.to_string(), key: None };
            router.record_refusal(&caller, &ModelApiError::new(400, message));
        };
        refuse("/e/1-a", "n");
        refuse("/e/1-a/v1/embeddings", "unknown path");
        refuse("/e/1-ab", "other");
        refuse("/e/1-abc", "no episode");
        refuse("/", "no episode");
        let last = |queue: &EpisodeQueue| queue.refusals().last.map(|refusal| refusal.message);
        assert_eq!((first.refusals().count, last(&first).as_deref()), (2, Some("unknown path")));
        assert_eq!((second.refusals().count, last(&second).as_deref()), (1, Some("other")));
        assert_eq!(router.key("/e/1-ab").unwrap().reveal(), "/e/1-ab");
        router.remove("/e/1-ab");
        assert!(router.key("/e/1-ab").is_none());
    }
}
