//! Provides the parent side of tools that run in worker processes, and of user programs.
//!
//! A host keeps up to `workers` processes for each interpreter and set of limits in use and starts each process with
//! its first call. Threads may share a host: sessions are spread evenly, and calls reach the workers in batches.

use crate::programs::CustomCodeOptions;
use crate::programs::log::log;
use crate::tools::confinement::support;
use crate::tools::cpython::installation::Installation;
use crate::tools::pool::{PoolKey, ToolWorkerPool, WorkerKind};
use crate::tools::program::CustomProgram;
use crate::tools::sql::SqlLimits;
use crate::tools::wire::SessionRecipe;
use crate::tools::worker_program::WorkerProgram;
use crate::tools::{PendingToolResult, ToolLimits};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_api::StageContext;
use trainyard_chat::Models;
use trainyard_core::{Error, Result, Secrets};
use trainyard_process::{Hello, ProgramLog, null_log};

/// Requested interpreter: program and version, if given.
type InterpreterRequest = (Option<PathBuf>, Option<String>);

/// Worker processes by interpreter and limits. They end when the last handle is dropped.
pub struct ToolHost {
    workers: usize,
    /// Executable of the workers. `None` means that it is looked up when a pool starts.
    program: Option<WorkerProgram>,
    pools: Mutex<BTreeMap<PoolKey, Arc<ToolWorkerPool>>>,
    /// Found interpreters, by requested program and version.
    installations: Mutex<BTreeMap<InterpreterRequest, Installation>>,
    /// User programs by role, name and options.
    programs: Mutex<BTreeMap<String, Arc<CustomProgram>>>,
    /// Log that receives the output of user programs.
    log: ProgramLog,
    /// Secrets for servers.
    secrets: Secrets,
    /// Models at endpoints.
    models: Arc<Models>,
    /// Whether the host starts no program.
    idle: bool,
}

/// Resources of a stage that its tools and environments may use.
struct StageResources {
    log: ProgramLog,
    secrets: Secrets,
    models: Arc<Models>,
}

impl StageResources {
    /// Returns resources for use outside of a stage, without secrets and keys.
    fn detached(log: ProgramLog) -> Self {
        Self { log, secrets: Secrets::default(), models: Models::in_memory() }
    }
}

impl ToolHost {
    /// Returns a host with up to `workers` processes (at least one) per set of limits, without starting any.
    pub fn new(workers: usize) -> Arc<Self> {
        Self::start(workers, None, StageResources::detached(null_log()), false)
    }
    /// Returns the host of a running stage, whose log receives the output of user programs, with the stage's secrets
    /// and models.
    ///
    /// Errors: those of [`Models::of_stage`].
    pub fn of_stage(context: &StageContext) -> Result<Arc<Self>> {
        let models = Models::of_stage(context)?;
        let resources = StageResources { log: log(context), secrets: context.secrets.clone(), models };
        Ok(Self::start(context.cpus, None, resources, false))
    }
    /// Returns a host with up to `workers` processes, whose user programs write to this log.
    pub fn with_log(workers: usize, log: ProgramLog) -> Arc<Self> {
        Self::start(workers, None, StageResources::detached(log), false)
    }
    /// Returns a host like that of [`ToolHost::with_log`], with secrets.
    pub fn with_secrets(workers: usize, log: ProgramLog, secrets: Secrets) -> Arc<Self> {
        Self::start(workers, None, StageResources { secrets, ..StageResources::detached(log) }, false)
    }
    /// Returns a host that starts no user program, for checks. Environments of such a host lack the data that only a
    /// program has.
    pub fn idle() -> Arc<Self> {
        Self::start(1, None, StageResources::detached(null_log()), true)
    }
    /// Returns the secrets that options may name by `{secret: NAME}`.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }
    /// Returns the models at endpoints, shared by all parts of the stage.
    pub fn models(&self) -> &Arc<Models> {
        &self.models
    }
    /// Returns the log of user programs.
    pub fn log(&self) -> ProgramLog {
        self.log.clone()
    }
    /// Returns a host whose workers run `program tool-worker`.
    pub fn with_program(workers: usize, program: impl Into<PathBuf>) -> Arc<Self> {
        Self::start(workers, Some(WorkerProgram(program.into())), StageResources::detached(null_log()), false)
    }
    fn start(workers: usize, program: Option<WorkerProgram>, resources: StageResources, idle: bool) -> Arc<Self> {
        let StageResources { log, secrets, models } = resources;
        let (pools, installations, programs) = (Mutex::default(), Mutex::default(), Mutex::default());
        let workers = workers.max(1);
        Arc::new(Self { workers, program, pools, installations, programs, log, secrets, models, idle })
    }
    /// Returns whether this host starts no user programs.
    pub fn is_idle(&self) -> bool {
        self.idle
    }
    /// Returns the user program or service of these options in this role. Starts it, and waits for its capabilities, if
    /// it does not run. `name` is the name of the part in the options.
    ///
    /// Errors: those of [`CustomCodeOptions::open`] and [`CustomProgram::from_service`].
    pub fn program<P: CustomCodeOptions>(&self, options: &P, role: &str, name: &str) -> Result<Arc<CustomProgram>> {
        let hello = Hello { role, name, seed: 0 };
        self.shared(role, &(P::KIND, name, options), |log| {
            CustomProgram::from_service(options.open(hello, &self.secrets, &log)?, log)
        })
    }
    /// Returns the program for these options in this role; calls `make` if it does not run. Errors: those of `make`;
    /// bug, if the host is idle.
    pub fn shared(
        &self,
        role: &str,
        options: &impl Serialize,
        make: impl FnOnce(ProgramLog) -> Result<Arc<CustomProgram>>,
    ) -> Result<Arc<CustomProgram>> {
        let key = serde_json::to_string(&(role, options))
            .map_err(|e| Error::bug(format!("options of a program have no JSON form: {e}")))?;
        if self.idle {
            return Err(Error::bug("a program was requested from an idle host"));
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = programs.get(&key) {
            return Ok(Arc::clone(running));
        }
        let program = make(self.log.clone())?;
        programs.insert(key, Arc::clone(&program));
        Ok(program)
    }
    /// Opens a session of the embedded interpreter under these limits. Its worker process starts with the first call.
    pub fn open(&self, limits: &ToolLimits) -> Result<ProgramSession> {
        self.open_session(limits, WorkerKind::Monty, SessionRecipe::default())
    }
    /// Opens a session of a CPython interpreter (`python3` of the PATH by default) under these limits.
    ///
    /// Errors: invalid, if the interpreter is missing, has another version, or this machine cannot confine it.
    pub fn open_cpython(
        &self,
        limits: &ToolLimits,
        program: Option<&Path>,
        version: Option<&str>,
    ) -> Result<ProgramSession> {
        let installation = self.installation(program, version)?;
        self.open_session(limits, WorkerKind::Cpython(installation), SessionRecipe::default())
    }
    /// Opens a session of queries on a database, which is JSON of a [`DatabaseData`](crate::tools::sql::DatabaseData).
    /// The worker creates the database before the first query.
    pub fn open_sql(&self, limits: &ToolLimits, sql: SqlLimits, database: &str) -> Result<ProgramSession> {
        let recipe = SessionRecipe { snapshot: Some(Arc::from(database.as_bytes())), history: Vec::new() };
        self.open_session(limits, WorkerKind::Sql(sql), recipe)
    }
    /// Returns the interpreters that [`ToolHost::open_cpython`] found: `CPython 3.11.7 (/usr/bin/python3)`.
    pub fn interpreters(&self) -> Vec<String> {
        let installations = self.installations.lock().unwrap_or_else(PoisonError::into_inner);
        installations.values().map(Installation::describe).collect()
    }
    /// Writes the numbers of exceptions of user programs' tools to their log.
    pub fn report_exceptions(&self) {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.values().for_each(|program| program.report());
    }
    /// Writes the exceptions of tools and the user's interpreters to the log of an attempt, and the interpreters to its
    /// measurements (`python`), which enter no digest.
    pub fn report(&self, context: &mut StageContext) {
        self.report_exceptions();
        let interpreters = self.interpreters();
        if !interpreters.is_empty() {
            let text = interpreters.join(", ");
            context.log(format!("the tool `python` ran {text}"));
            context.measure("python", text);
        }
    }
    fn installation(&self, program: Option<&Path>, version: Option<&str>) -> Result<Installation> {
        let request = (program.map(Path::to_path_buf), version.map(str::to_string));
        let mut installations = self.installations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = installations.get(&request) {
            return Ok(known.clone());
        }
        support::require()?;
        let installation = Installation::find(program, version)?;
        installations.insert(request, installation.clone());
        Ok(installation)
    }
    fn open_session(&self, limits: &ToolLimits, kind: WorkerKind, recipe: SessionRecipe) -> Result<ProgramSession> {
        let key = PoolKey { limits: limits.clone(), kind };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match pools.get(&key) {
            Some(pool) => Arc::clone(pool),
            None => {
                let program = self.program.clone().map_or_else(WorkerProgram::find, Ok)?;
                let pool = Arc::new(ToolWorkerPool::start(self.workers, &key, &program)?);
                pools.insert(key, Arc::clone(&pool));
                pool
            }
        };
        drop(pools);
        let id = pool.open(recipe);
        Ok(ProgramSession { pool, id })
    }
    /// Returns the process ids of the living workers; for tests that kill them.
    pub fn worker_ids(&self) -> Vec<u32> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values().flat_map(|pool| pool.worker_ids()).collect()
    }
}

/// Interpreter session in some worker. It closes when dropped.
pub struct ProgramSession {
    pool: Arc<ToolWorkerPool>,
    id: u64,
}

impl ProgramSession {
    /// Runs a program after all earlier ones of this session.
    pub fn submit(&self, code: &str) -> PendingToolResult {
        self.pool.submit(self.id, code)
    }
    /// Returns a new session with the state after the last completed call.
    pub fn fork(&self) -> Self {
        Self { pool: Arc::clone(&self.pool), id: self.pool.fork(self.id) }
    }
}

impl Drop for ProgramSession {
    fn drop(&mut self) {
        self.pool.close(self.id);
    }
}
