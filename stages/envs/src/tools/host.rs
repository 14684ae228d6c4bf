//! The parent side of tools that run in worker processes.
//!
//! A host keeps up to `workers` processes for each interpreter and set of limits in use and starts them with the first
//! call. Threads may share it: sessions are spread evenly, and calls reach the workers in batches.

use crate::programs::log::log;
use crate::tools::cpython::installation::Installation;
use crate::tools::cpython::support;
use crate::tools::pool::{Pool, PoolKey};
use crate::tools::worker_program::WorkerProgram;
use crate::tools::{Ticket, ToolLimits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use trainyard_api::StageContext;
use trainyard_core::Result;
use trainyard_process::{Log, silent};

/// The interpreter that options ask for: its program and its version, if they say so.
type Wanted = (Option<PathBuf>, Option<String>);

/// Worker processes by interpreter and limits. They end when the last handle is dropped.
pub struct ToolHost {
    workers: usize,
    /// `None` = looked up when the first pool starts.
    program: Option<WorkerProgram>,
    pools: Mutex<BTreeMap<PoolKey, Arc<Pool>>>,
    /// Interpreters of the user by the program and version that were asked for.
    installations: Mutex<BTreeMap<Wanted, Installation>>,
    /// Of the stage.
    log: OnceLock<Log>,
}

impl ToolHost {
    /// A host with up to `workers` processes (at least one) per set of limits. Starts none yet.
    pub fn new(workers: usize) -> Arc<Self> {
        Self::start(workers, None)
    }
    /// A host with one process per CPU of a stage, whose programs write to its log.
    pub fn of_stage(context: &StageContext) -> Arc<Self> {
        let host = Self::new(context.cpus);
        let _ = host.log.set(log(context));
        host
    }
    /// Where programs of the user write.
    pub fn log(&self) -> Log {
        self.log.get().cloned().unwrap_or_else(silent)
    }
    /// A host whose workers run `program tool-worker`.
    pub fn with_program(workers: usize, program: impl Into<PathBuf>) -> Arc<Self> {
        Self::start(workers, Some(WorkerProgram(program.into())))
    }
    fn start(workers: usize, program: Option<WorkerProgram>) -> Arc<Self> {
        let (pools, installations) = (Mutex::default(), Mutex::default());
        Arc::new(Self { workers: workers.max(1), program, pools, installations, log: OnceLock::new() })
    }
    /// Opens a session of the embedded interpreter under these limits.
    pub fn open(&self, limits: &ToolLimits) -> Result<ProgramSession> {
        self.enter(PoolKey { limits: limits.clone(), cpython: None })
    }
    /// Opens a session of the user's CPython (`python3` of the PATH unless a program is given) under these limits.
    ///
    /// Errors: invalid, if there is no such interpreter, it is of another version, or this machine cannot confine it.
    pub fn open_cpython(
        &self,
        limits: &ToolLimits,
        program: Option<&Path>,
        version: Option<&str>,
    ) -> Result<ProgramSession> {
        let installation = self.installation(program, version)?;
        self.enter(PoolKey { limits: limits.clone(), cpython: Some(installation) })
    }
    /// The interpreters of the user that sessions were opened with: `CPython 3.11.7 (/usr/bin/python3)`.
    pub fn interpreters(&self) -> Vec<String> {
        let installations = self.installations.lock().unwrap_or_else(PoisonError::into_inner);
        installations.values().map(Installation::describe).collect()
    }
    /// Writes which interpreters of the user ran into the log of an attempt and among what it measured (`python`). No
    /// digest sees them.
    pub fn report(&self, context: &mut StageContext) {
        let interpreters = self.interpreters();
        if !interpreters.is_empty() {
            let text = interpreters.join(", ");
            context.log(format!("the tool `python` ran {text}"));
            context.measure("python", text);
        }
    }
    fn installation(&self, program: Option<&Path>, version: Option<&str>) -> Result<Installation> {
        let wanted = (program.map(Path::to_path_buf), version.map(str::to_string));
        let mut installations = self.installations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = installations.get(&wanted) {
            return Ok(known.clone());
        }
        support::require()?;
        let found = Installation::find(program, version)?;
        installations.insert(wanted, found.clone());
        Ok(found)
    }
    fn enter(&self, key: PoolKey) -> Result<ProgramSession> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match pools.get(&key) {
            Some(pool) => Arc::clone(pool),
            None => {
                let program = self.program.clone().map_or_else(WorkerProgram::find, Ok)?;
                let pool = Arc::new(Pool::start(self.workers, &key, &program)?);
                pools.insert(key, Arc::clone(&pool));
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
