//! The parent side of tools that run in worker processes.
//!
//! A host keeps up to `workers` processes for each set of limits in use and starts them with the first call. Threads
//! may share it: sessions are spread evenly, and calls reach the workers in batches.

use crate::tools::pool::Pool;
use crate::tools::worker_program::WorkerProgram;
use crate::tools::{Ticket, ToolLimits};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::Result;

/// Worker processes by limits. They end when the last handle is dropped.
pub struct ToolHost {
    workers: usize,
    /// `None` = looked up when the first pool starts.
    program: Option<WorkerProgram>,
    pools: Mutex<BTreeMap<ToolLimits, Arc<Pool>>>,
}

impl ToolHost {
    /// A host with up to `workers` processes (at least one) per set of limits. Starts none yet.
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers: workers.max(1), program: None, pools: Mutex::default() })
    }
    /// A host whose workers run `program tool-worker`.
    pub fn with_program(workers: usize, program: impl Into<PathBuf>) -> Arc<Self> {
        Arc::new(Self {
            workers: workers.max(1),
            program: Some(WorkerProgram(program.into())),
            pools: Mutex::default(),
        })
    }
    /// Opens an interpreter session under these limits.
    pub fn open(&self, limits: &ToolLimits) -> Result<ProgramSession> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match pools.get(limits) {
            Some(pool) => Arc::clone(pool),
            None => {
                let program = self.program.clone().map_or_else(WorkerProgram::find, Ok)?;
                let pool = Arc::new(Pool::start(self.workers, limits.clone(), &program)?);
                pools.insert(limits.clone(), Arc::clone(&pool));
                pool
            }
        };
        drop(pools);
        let id = pool.open();
        Ok(ProgramSession { pool, id })
    }
    /// Process ids of the living workers; for tests that kill them.
    pub fn worker_ids(&self) -> Vec<u32> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values().flat_map(|pool| pool.worker_ids()).collect()
    }
}

/// An interpreter session in some worker; closes when dropped.
pub struct ProgramSession {
    pool: Arc<Pool>,
    id: u64,
}

impl ProgramSession {
    /// Runs a program after all earlier ones of this session.
    pub fn submit(&self, code: &str) -> Ticket {
        self.pool.submit(self.id, code)
    }
    /// A new session with the state after the last completed call.
    pub fn fork(&self) -> Self {
        Self { pool: Arc::clone(&self.pool), id: self.pool.fork(self.id) }
    }
}

impl Drop for ProgramSession {
    fn drop(&mut self) {
        self.pool.close(self.id);
    }
}
