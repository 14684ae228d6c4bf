//! State shared with one worker's driver: a queue of calls and the records of its sessions.

use crate::tools::pending_result::ToolResponder;
use crate::tools::wire::SessionRecipe;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Calls per batch: enough to hide a round trip, few enough that losing a worker costs little.
const MAX_BATCH: usize = 256;

#[derive(Default)]
pub struct ToolWorkerQueue {
    state: Mutex<ToolWorkerQueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct ToolWorkerQueueState {
    queue: VecDeque<WorkItem>,
    sessions: HashMap<u64, ToolSessionRecord>,
    worker: Option<u32>,
    shut: bool,
}

/// Recipe of a session, and the process that holds it.
#[derive(Default)]
pub struct ToolSessionRecord {
    pub recipe: SessionRecipe,
    /// Program time of the recipe's history.
    pub cost: Duration,
    /// Number of the worker process that holds the session; 0 = none.
    pub held_by: u64,
}

/// An entry of the queue.
pub enum WorkItem {
    Call(QueuedCall),
    Close(u64),
}

pub struct QueuedCall {
    pub session: u64,
    pub code: Arc<str>,
    pub answer: ToolResponder,
    /// Number of workers that died under this call without its fault.
    pub losses: u32,
}

impl ToolWorkerQueue {
    fn lock(&self) -> MutexGuard<'_, ToolWorkerQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn add_session(&self, session: u64, recipe: SessionRecipe) {
        self.lock().sessions.insert(session, ToolSessionRecord { recipe, ..ToolSessionRecord::default() });
    }
    pub fn recipe(&self, session: u64) -> SessionRecipe {
        self.lock().sessions.get(&session).map(|r| r.recipe.clone()).unwrap_or_default()
    }
    /// Queues a call; returns `answer` if the lane is shut down.
    pub fn submit(&self, session: u64, code: &str, answer: ToolResponder) -> Result<(), ToolResponder> {
        let mut state = self.lock();
        if state.shut {
            return Err(answer);
        }
        state.queue.push_back(WorkItem::Call(QueuedCall { session, code: Arc::from(code), answer, losses: 0 }));
        drop(state);
        self.wake.notify_one();
        Ok(())
    }
    /// Queues the end of a session after its calls.
    pub fn queue_close(&self, session: u64) {
        let mut state = self.lock();
        state.queue.push_back(WorkItem::Close(session));
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
    pub fn take(&self) -> Vec<WorkItem> {
        let state = self.lock();
        let idle = |s: &mut ToolWorkerQueueState| {
            !s.shut && s.queue.len() < MAX_BATCH && !s.queue.iter().any(|w| matches!(w, WorkItem::Call(_)))
        };
        let mut state = self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let count = state.queue.len().min(MAX_BATCH);
        state.queue.drain(..count).collect()
    }
    /// Reads or changes a session's record.
    pub fn with_session<T>(&self, session: u64, change: impl FnOnce(&mut ToolSessionRecord) -> T) -> Option<T> {
        self.lock().sessions.get_mut(&session).map(change)
    }
    pub fn forget(&self, session: u64) -> Option<ToolSessionRecord> {
        self.lock().sessions.remove(&session)
    }
    pub fn set_worker(&self, worker: Option<u32>) {
        self.lock().worker = worker;
    }
    pub fn worker_id(&self) -> Option<u32> {
        self.lock().worker
    }
}
