//! Worker processes of one kind under one set of limits, and their sessions.
//!
//! Each worker is a lane: a queue, the records of its sessions, and a thread that owns the process. A session stays in
//! its lane for life, which keeps its calls in order. Its record contains a recipe (a snapshot and the later calls),
//! from which a fork or a new process is built.

mod driver;
mod key;
mod process;
mod queue;

use crate::tools::wire::SessionRecipe;
use crate::tools::worker_program::WorkerProgram;
use crate::tools::{PendingToolResult, ToolResult};
pub use key::PoolKey;
use queue::ToolWorkerQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use trainyard_core::{Error, Result};

pub(crate) struct ToolWorkerPool {
    queues: Vec<Arc<ToolWorkerQueue>>,
    drivers: Vec<JoinHandle<()>>,
    next: AtomicU64,
}

impl ToolWorkerPool {
    /// Starts the threads. Processes start with their first call.
    pub fn start(workers: usize, key: &PoolKey, program: &WorkerProgram) -> Result<Self> {
        let mut pool = Self { queues: Vec::new(), drivers: Vec::new(), next: AtomicU64::new(0) };
        for index in 0..workers {
            let lane = Arc::new(ToolWorkerQueue::default());
            let driver = driver::ToolWorkerDriver::new(Arc::clone(&lane), program.clone(), key.clone());
            let thread = std::thread::Builder::new().name(format!("tools-{index}"));
            let handle = thread.spawn(move || driver.run());
            pool.queues.push(lane);
            pool.drivers.push(
                handle.map_err(|e| Error::retryable(format!("cannot start a thread for tool worker {index}: {e}")))?,
            );
        }
        Ok(pool)
    }
    /// Opens a fresh session.
    pub fn open(&self) -> u64 {
        self.add_session(SessionRecipe::default())
    }
    /// Opens a session with the state of `id` after its last completed call.
    pub fn fork(&self, id: u64) -> u64 {
        self.add_session(self.queue(id).recipe(id))
    }
    /// Adds a session. Ids count up, and their remainder selects the lane, which spreads sessions evenly without a
    /// lock.
    fn add_session(&self, recipe: SessionRecipe) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.queue(id).add_session(id, recipe);
        id
    }
    fn queue(&self, id: u64) -> &ToolWorkerQueue {
        &self.queues[(id % self.queues.len() as u64) as usize]
    }
    pub fn submit(&self, id: u64, code: &str) -> PendingToolResult {
        let (ticket, answer) = PendingToolResult::new();
        if let Err(answer) = self.queue(id).submit(id, code, answer) {
            answer.respond(ToolResult::infrastructure("error: the tool is shutting down"));
        }
        ticket
    }
    pub fn close(&self, id: u64) {
        self.queue(id).queue_close(id);
    }
    /// Returns the process ids of the living workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.queues.iter().filter_map(|lane| lane.worker_id()).collect()
    }
}

impl Drop for ToolWorkerPool {
    fn drop(&mut self) {
        for lane in &self.queues {
            lane.shut();
        }
        for driver in self.drivers.drain(..) {
            // After a panic there is no process left to end; the worker dies with its thread.
            let _ = driver.join();
        }
    }
}
