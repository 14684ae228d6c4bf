//! The parent side of tools that run in worker processes.
//!
//! A host keeps up to `workers` processes for each interpreter and set of limits in use and starts them with the first
//! call. Threads may share it: sessions are spread evenly, and calls reach the workers in batches.

use crate::programs::PeerOptions;
use crate::programs::log::log;
use crate::tools::cpython::installation::Installation;
use crate::tools::cpython::support;
use crate::tools::pool::{Pool, PoolKey};
use crate::tools::process::program::Program;
use crate::tools::worker_program::WorkerProgram;
use crate::tools::{Ticket, ToolLimits};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_api::StageContext;
use trainyard_chat::Models;
use trainyard_core::{Error, Result, Secrets};
use trainyard_process::{Hello, Log, silent};

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
    /// Programs of the user by role, name and options.
    programs: Mutex<BTreeMap<String, Arc<Program>>>,
    /// Hears what they say.
    log: Log,
    /// What servers may be given.
    secrets: Secrets,
    /// Models behind endpoints.
    models: Arc<Models>,
    /// Starts no program.
    idle: bool,
}

/// What a stage lets its tools and environments use.
struct Around {
    log: Log,
    secrets: Secrets,
    models: Arc<Models>,
}

impl Around {
    /// Outside of a stage.
    fn apart(log: Log) -> Self {
        Self { log, secrets: Secrets::default(), models: Models::apart() }
    }
}

impl ToolHost {
    /// A host with up to `workers` processes (at least one) per set of limits. Starts none yet.
    pub fn new(workers: usize) -> Arc<Self> {
        Self::start(workers, None, Around::apart(silent()), false)
    }
    /// The host of a running stage, whose log hears what programs of the user say, with the stage's secrets and models.
    ///
    /// Errors: those of [`Models::of_stage`].
    pub fn of_stage(context: &StageContext) -> Result<Arc<Self>> {
        let models = Models::of_stage(context)?;
        let around = Around { log: log(context), secrets: context.secrets.clone(), models };
        Ok(Self::start(context.cpus, None, around, false))
    }
    /// A host with up to `workers` processes, whose programs of the user write into this log.
    pub fn with_log(workers: usize, log: Log) -> Arc<Self> {
        Self::start(workers, None, Around::apart(log), false)
    }
    /// The same with secrets.
    pub fn with_secrets(workers: usize, log: Log, secrets: Secrets) -> Arc<Self> {
        Self::start(workers, None, Around { secrets, ..Around::apart(log) }, false)
    }
    /// A host that starts no program of the user, for checks: what only a program knows is left out.
    pub fn idle() -> Arc<Self> {
        Self::start(1, None, Around::apart(silent()), true)
    }
    /// What the options may name by `{secret: NAME}`.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }
    /// Models behind endpoints, as all parts of the stage ask them.
    pub fn models(&self) -> &Arc<Models> {
        &self.models
    }
    /// Where programs of the user write.
    pub fn log(&self) -> Log {
        self.log.clone()
    }
    /// A host whose workers run `program tool-worker`.
    pub fn with_program(workers: usize, program: impl Into<PathBuf>) -> Arc<Self> {
        Self::start(workers, Some(WorkerProgram(program.into())), Around::apart(silent()), false)
    }
    fn start(workers: usize, program: Option<WorkerProgram>, around: Around, idle: bool) -> Arc<Self> {
        let Around { log, secrets, models } = around;
        let (pools, installations, programs) = (Mutex::default(), Mutex::default(), Mutex::default());
        let workers = workers.max(1);
        Arc::new(Self { workers, program, pools, installations, programs, log, secrets, models, idle })
    }
    /// Whether programs of the user are left alone.
    pub fn is_idle(&self) -> bool {
        self.idle
    }
    /// A program or service of the user in this role, started if it does not run; `name` is what the options call its
    /// part.
    ///
    /// Errors: those of [`PeerOptions::open`] and [`Program::over`].
    pub fn program<P: PeerOptions>(&self, options: &P, role: &str, name: &str) -> Result<Arc<Program>> {
        let hello = Hello { role, name, seed: 0 };
        self.shared(role, &(P::KIND, name, options), |log| {
            Program::over(options.open(hello, &self.secrets, &log)?, log)
        })
    }
    /// What answers to these options in this role, made if it does not run. Errors: those of `make`.
    pub fn shared(
        &self,
        role: &str,
        options: &impl Serialize,
        make: impl FnOnce(Log) -> Result<Arc<Program>>,
    ) -> Result<Arc<Program>> {
        let key = serde_json::to_string(&(role, options))
            .map_err(|e| Error::bug(format!("options of a program have no JSON form: {e}")))?;
        if self.idle {
            return Err(Error::bug("a program is asked for where none is started"));
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = programs.get(&key) {
            return Ok(Arc::clone(known));
        }
        let program = make(self.log.clone())?;
        programs.insert(key, Arc::clone(&program));
        Ok(program)
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
