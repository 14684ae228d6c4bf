//! Routing of requests to their episodes: every episode has a separate path.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_model_api::{Caller, ModelApiError, ModelCard, ModelHandler, PendingRequest};

/// Requests of one episode that wait for the sampling loop, in order of arrival.
#[derive(Default)]
pub struct EpisodeQueue {
    requests: Mutex<VecDeque<PendingRequest>>,
    arrived: Condvar,
}

impl EpisodeQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<PendingRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns the next request, if one waits.
    pub fn next(&self) -> Option<PendingRequest> {
        self.lock().pop_front()
    }
    /// Blocks up to `within` for a request.
    pub fn wait(&self, within: Duration) {
        let waited = self.arrived.wait_timeout_while(self.lock(), within, |questions| questions.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Seats of all episodes by their paths.
#[derive(Default)]
pub struct EpisodeRouter(Mutex<BTreeMap<String, Arc<EpisodeQueue>>>);

impl EpisodeRouter {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<EpisodeQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Creates a seat for an episode with this path.
    pub fn add(&self, base: &str) -> Arc<EpisodeQueue> {
        let seat = Arc::new(EpisodeQueue::default());
        self.lock().insert(base.to_string(), Arc::clone(&seat));
        seat
    }
    /// Removes the seat of an episode that is over.
    pub fn remove(&self, base: &str) {
        self.lock().remove(base);
    }
    fn queue(&self, caller: &Caller) -> Result<Arc<EpisodeQueue>, ModelApiError> {
        let over =
            || ModelApiError::new(404, "there is no such episode, or it is over; use the base URL that was given");
        self.lock().get(&caller.base).cloned().ok_or_else(over)
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
    fn handle(&self, question: PendingRequest) {
        match self.queue(&question.caller) {
            Err(refusal) => question.reply.fail(refusal),
            Ok(seat) => {
                seat.lock().push_back(question);
                seat.arrived.notify_all();
            }
        }
    }
}
