//! Manages worker processes of one kind under one set of limits, and their sessions.
//!
//! A [`Supervisor`] runs the workers. A session stays in the lane of one worker for life, which keeps its calls in
//! order. The session's record contains a recipe (a snapshot and the later calls), from which a fork or a new process
//! rebuilds the state.

mod key;
mod process;
mod records;
mod worker;

use crate::tools::PendingToolResult;
use crate::tools::wire::SessionRecipe;
use crate::tools::worker_program::WorkerProgram;
pub use key::{PoolKey, WorkerKind};
use records::ToolSessionRecords;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trainyard_core::{Error, Result};
use trainyard_process::{SupervisedProgram, Supervisor, null_log};
use worker::{QueuedToolCall, ToolWork, ToolWorkerWire};

/// Time in which a worker must be ready.
const START_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct ToolWorkerPool {
    supervisor: Supervisor<ToolWork>,
    /// Records of the sessions by lane.
    records: Vec<Arc<ToolSessionRecords>>,
    next: AtomicU64,
}

impl ToolWorkerPool {
    /// Starts one thread per worker. Worker processes start with their first call.
    pub fn start(workers: usize, key: &PoolKey, program: &WorkerProgram) -> Result<Self> {
        let records: Vec<Arc<ToolSessionRecords>> = (0..workers).map(|_| Arc::default()).collect();
        let queue =
            |records: &Arc<ToolSessionRecords>| ToolWorkerWire::new(Arc::clone(records), program.clone(), key.clone());
        let queues: Vec<ToolWorkerWire> = records.iter().map(queue).collect();
        let timeout = queues.first().map(ToolWorkerWire::timeout).unwrap_or_default();
        let supervised = SupervisedProgram {
            place: "a tool worker".to_string(),
            help: "set its variable to a program that serves tools",
            start_help: "run the same command again when the machine has less to do",
            timeout,
            start: START_TIMEOUT.max(timeout),
            log: null_log(),
        };
        let supervisor = Supervisor::start("tools", supervised, queues)
            .map_err(|(index, e)| Error::retryable(format!("cannot start a thread for tool worker {index}: {e}")))?;
        Ok(Self { supervisor, records, next: AtomicU64::new(0) })
    }
    /// Opens a session that begins with this recipe.
    pub fn open(&self, recipe: SessionRecipe) -> u64 {
        self.add_session(recipe)
    }
    /// Opens a session with the state of `id` after its last completed call.
    pub fn fork(&self, id: u64) -> u64 {
        self.add_session(self.records(id).recipe(id))
    }
    /// Adds a session. Ids count up, and their remainder selects the lane, which spreads sessions evenly without a
    /// lock.
    fn add_session(&self, recipe: SessionRecipe) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.records(id).insert(id, recipe);
        id
    }
    fn queue(&self, id: u64) -> usize {
        (id % self.records.len() as u64) as usize
    }
    fn records(&self, id: u64) -> &ToolSessionRecords {
        &self.records[self.queue(id)]
    }
    pub fn submit(&self, id: u64, code: &str) -> PendingToolResult {
        let (pending, responder) = PendingToolResult::new();
        self.supervisor
            .push_to(self.queue(id), ToolWork::Call(QueuedToolCall { session: id, code: Arc::from(code), responder }));
        pending
    }
    /// Closes a session after its calls. The worker is notified with the next call of the lane, or earlier if many
    /// notifications wait.
    pub fn close(&self, id: u64) {
        self.supervisor.push_back_to(self.queue(id), ToolWork::Close(id));
    }
    /// Returns the process ids of the living workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.supervisor.worker_ids()
    }
}
