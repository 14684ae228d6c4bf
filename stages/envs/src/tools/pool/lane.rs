//! State shared with one worker's driver: a queue of calls and the records of its sessions.

use crate::tools::ticket::Responder;
use crate::tools::wire::Recipe;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Calls per batch: enough to hide a round trip, few enough that losing a worker costs little.
const MAX_BATCH: usize = 256;

#[derive(Default)]
pub struct Lane {
    state: Mutex<LaneState>,
    wake: Condvar,
}

#[derive(Default)]
struct LaneState {
    queue: VecDeque<Work>,
    sessions: HashMap<u64, Record>,
    worker: Option<u32>,
    shut: bool,
}

/// Recipe of a session, and the process that holds it.
#[derive(Default)]
pub struct Record {
    pub recipe: Recipe,
    /// Program time of the recipe's history.
    pub cost: Duration,
    /// Number of the worker process that holds the session; 0 = none.
    pub held_by: u64,
}

/// An entry of the queue.
pub enum Work {
    Call(Call),
    Close(u64),
}

pub struct Call {
    pub session: u64,
    pub code: Arc<str>,
    pub answer: Responder,
    /// Number of workers that died under this call without its fault.
    pub losses: u32,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn enter(&self, session: u64, recipe: Recipe) {
        self.lock().sessions.insert(session, Record { recipe, ..Record::default() });
    }
    pub fn recipe(&self, session: u64) -> Recipe {
        self.lock().sessions.get(&session).map(|r| r.recipe.clone()).unwrap_or_default()
    }
    /// Queues a call; returns `answer` if the lane is shut down.
    pub fn submit(&self, session: u64, code: &str, answer: Responder) -> Result<(), Responder> {
        let mut state = self.lock();
        if state.shut {
            return Err(answer);
        }
        state.queue.push_back(Work::Call(Call { session, code: Arc::from(code), answer, losses: 0 }));
        drop(state);
        self.wake.notify_one();
        Ok(())
    }
    /// Queues the end of a session after its calls.
    pub fn leave(&self, session: u64) {
        let mut state = self.lock();
        state.queue.push_back(Work::Close(session));
        // No wake-up: closing can wait for the next call unless sessions pile up.
        let pile = state.queue.len() >= MAX_BATCH;
        drop(state);
        if pile {
            self.wake.notify_one();
        }
    }
    pub fn shut(&self) {
        self.lock().shut = true;
        self.wake.notify_one();
    }
    pub fn is_shut(&self) -> bool {
        self.lock().shut
    }
    /// Blocks until there is work; empty once the lane is shut down and drained.
    pub fn take(&self) -> Vec<Work> {
        let state = self.lock();
        let idle = |s: &mut LaneState| {
            !s.shut && s.queue.len() < MAX_BATCH && !s.queue.iter().any(|w| matches!(w, Work::Call(_)))
        };
        let mut state = self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let count = state.queue.len().min(MAX_BATCH);
        state.queue.drain(..count).collect()
    }
    /// Reads or changes a session's record.
    pub fn with<T>(&self, session: u64, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        self.lock().sessions.get_mut(&session).map(change)
    }
    pub fn forget(&self, session: u64) -> Option<Record> {
        self.lock().sessions.remove(&session)
    }
    pub fn set_worker(&self, worker: Option<u32>) {
        self.lock().worker = worker;
    }
    pub fn worker_id(&self) -> Option<u32> {
        self.lock().worker
    }
}
