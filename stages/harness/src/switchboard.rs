//! Routing of requests to their episodes: every episode has a separate path.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_model_api::{Caller, Card, Desk, Question, Refusal};

/// Requests of one episode that wait for the sampling loop, in order of arrival.
#[derive(Default)]
pub struct Seat {
    questions: Mutex<VecDeque<Question>>,
    came: Condvar,
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Question>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns the next request, if one waits.
    pub fn next(&self) -> Option<Question> {
        self.lock().pop_front()
    }
    /// Blocks up to `within` for a request.
    pub fn wait(&self, within: Duration) {
        let waited = self.came.wait_timeout_while(self.lock(), within, |questions| questions.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Seats of all episodes by their paths.
#[derive(Default)]
pub struct Switchboard(Mutex<BTreeMap<String, Arc<Seat>>>);

impl Switchboard {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Creates a seat for an episode with this path.
    pub fn take(&self, base: &str) -> Arc<Seat> {
        let seat = Arc::new(Seat::default());
        self.lock().insert(base.to_string(), Arc::clone(&seat));
        seat
    }
    /// Removes the seat of an episode that is over.
    pub fn leave(&self, base: &str) {
        self.lock().remove(base);
    }
    fn seat(&self, caller: &Caller) -> Result<Arc<Seat>, Refusal> {
        let over = || Refusal::new(404, "there is no such episode, or it is over; use the base URL that was given");
        self.lock().get(&caller.base).cloned().ok_or_else(over)
    }
}

impl Desk for Switchboard {
    fn models(&self, caller: &Caller) -> Result<Vec<Card>, Refusal> {
        self.seat(caller)?;
        Ok(vec![Card { name: "policy".to_string(), positions: None }])
    }
    fn any_name(&self) -> bool {
        true
    }
    fn ask(&self, question: Question) {
        match self.seat(&question.caller) {
            Err(refusal) => question.reply.refuse(refusal),
            Ok(seat) => {
                seat.lock().push_back(question);
                seat.came.notify_all();
            }
        }
    }
}
