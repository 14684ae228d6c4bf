//! Worker processes of one kind under one set of limits, and their sessions.
//!
//! The workers are those of a [`Supervisor`]. A session stays in the lane of one for life, which keeps its calls in
//! order. Its record contains a recipe (a snapshot and the later calls), from which a fork or a new process is built.

mod key;
mod process;
mod records;
mod worker;

use crate::tools::Ticket;
use crate::tools::wire::Recipe;
use crate::tools::worker_program::WorkerProgram;
pub use key::PoolKey;
use records::Records;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::{Error, Result};
use trainyard_process::{Described, Supervisor, silent};
use worker::{Call, Work, Worker};

pub(crate) struct Pool {
    supervisor: Supervisor<Work>,
    /// Records of the sessions by lane.
    records: Vec<Arc<Records>>,
    next: AtomicU64,
}

impl Pool {
    /// Starts the threads. Processes start with their first call.
    pub fn start(workers: usize, key: &PoolKey, program: &WorkerProgram) -> Result<Self> {
        let records: Vec<Arc<Records>> = (0..workers).map(|_| Arc::default()).collect();
        let lane = |records: &Arc<Records>| Worker::new(Arc::clone(records), program.clone(), key.clone());
        let lanes: Vec<Worker> = records.iter().map(lane).collect();
        let described = Described {
            place: "a tool worker".to_string(),
            help: "set its variable to a program that serves tools",
            timeout: lanes.first().map(Worker::timeout).unwrap_or_default(),
            log: silent(),
        };
        let supervisor = Supervisor::start("tools", described, lanes)
            .map_err(|(index, e)| Error::retryable(format!("cannot start a thread for tool worker {index}: {e}")))?;
        Ok(Self { supervisor, records, next: AtomicU64::new(0) })
    }
    /// Opens a fresh session.
    pub fn open(&self) -> u64 {
        self.enter(Recipe::default())
    }
    /// Opens a session with the state of `id` after its last completed call.
    pub fn fork(&self, id: u64) -> u64 {
        self.enter(self.records(id).recipe(id))
    }
    /// Adds a session. Ids count up, and their remainder selects the lane, which spreads sessions evenly without a
    /// lock.
    fn enter(&self, recipe: Recipe) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.records(id).enter(id, recipe);
        id
    }
    fn lane(&self, id: u64) -> usize {
        (id % self.records.len() as u64) as usize
    }
    fn records(&self, id: u64) -> &Records {
        &self.records[self.lane(id)]
    }
    pub fn submit(&self, id: u64, code: &str) -> Ticket {
        let (ticket, answer) = Ticket::new();
        self.supervisor.put_on(self.lane(id), Work::Call(Call { session: id, code: Arc::from(code), answer }));
        ticket
    }
    /// Ends a session after its calls, with the next call of its lane unless sessions pile up.
    pub fn close(&self, id: u64) {
        self.supervisor.put_later(self.lane(id), Work::Close(id));
    }
    /// Returns the process ids of the living workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.supervisor.worker_ids()
    }
}
