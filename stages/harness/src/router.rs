//! Routes requests to their episodes. Every episode has a separate path on the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_model_api::{Caller, ModelApiError, ModelCard, ModelHandler, PendingRequest};

/// Requests of one episode that wait for the sampling loop, in the order of arrival.
#[derive(Default)]
pub struct EpisodeQueue {
    requests: Mutex<VecDeque<PendingRequest>>,
    arrived: Condvar,
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
}

/// Queues of all episodes by their paths.
#[derive(Default)]
pub struct EpisodeRouter(Mutex<BTreeMap<String, Arc<EpisodeQueue>>>);

impl EpisodeRouter {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EpisodeQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Creates the queue of the episode with the path `base`.
    pub fn add(&self, base: &str) -> Arc<EpisodeQueue> {
        let queue = Arc::new(EpisodeQueue::default());
        self.lock().insert(base.to_string(), Arc::clone(&queue));
        queue
    }
    /// Removes the queue of an ended episode, so that later requests are rejected.
    pub fn remove(&self, base: &str) {
        self.lock().remove(base);
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
