//! Does the common work of all attempts, supervised, detached or hosted: it fetches inputs, runs the stage and stores
//! outputs.

use super::checkpoints::{NoCheckpoints, StoredCheckpoints};
use super::inputs::materialize;
use super::nodes::{self, PeerNodes};
use super::process_tree::HostProcessTree;
use super::rendezvous::{self, Rendezvous};
use super::requests::StoredRequests;
use super::secrets;
use super::sources::guard_sources;
use super::stop::stale;
use super::uploads::UploadPaths;
use super::{command, memory, outputs, uploads};
use crate::catalogue::Catalogue;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use trainyard_api::{CancelToken, CheckpointStore, InputArtifact, Reporter, RequestsInMemory, StageContext};
use trainyard_core::attempt::{AttemptResult, AttemptSpec, Phase};
use trainyard_core::error::io_error;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_spec::run_stage::KIND as RUN_KIND;
use trainyard_store::{CreateOutcome, Store};

/// Name of the stage's working directory in the attempt's folder.
pub const WORK: &str = "work";

/// Parameters of an attempt.
pub struct AttemptRunner<'a> {
    /// URL of the attempt, which also marks all processes that it starts.
    pub url: &'a str,
    /// Known stage kinds.
    pub catalogue: &'a Catalogue,
    /// Store of inputs and outputs.
    pub store: &'a Store,
    /// Spec of the attempt.
    pub spec: &'a AttemptSpec,
    /// Scratch folder of the attempt, initially empty.
    pub scratch: &'a Path,
    /// Process tree of the host; `None` if the attempt has its own process.
    pub process_tree: Option<&'a HostProcessTree>,
    /// Runtime of store requests.
    pub handle: Handle,
    /// Cancelled when the attempt must stop.
    pub cancel: CancelToken,
    /// Becomes true when the attempt must no longer wait for the store; `None` if its process is killed instead.
    pub killed: Option<watch::Receiver<bool>>,
    /// Receives the messages of the stage.
    pub reporter: Arc<dyn Reporter>,
    /// Called when the attempt enters a phase.
    pub enter: &'a dyn Fn(Phase),
}

impl AttemptRunner<'_> {
    /// Runs the attempt, stores its outputs, and returns its result. The caller stores the result.
    pub fn result(&self) -> Result<AttemptResult> {
        tracing::info!(kind = self.spec.kind, cpus = self.spec.resources.cpus, "attempt opened");
        let clock = SystemClock::new();
        let checkpoints: Arc<dyn CheckpointStore> = Arc::new(StoredCheckpoints::new(
            self.store.clone(),
            self.handle.clone(),
            self.spec,
            self.scratch.join("checkpoint"),
            self.reporter.clone(),
        ));
        let (spec, places, mut context) = self.fetch(checkpoints)?;
        guard_sources(&spec, &places, || {
            let started = clock.monotonic();
            self.run(&spec, &mut context)?;
            context.measure("seconds", (clock.monotonic() - started).as_secs_f64());
            Ok(())
        })?;
        if spec.kind != RUN_KIND
            && let Some(bytes) = peak_memory()
        {
            context.measure("peak_memory_bytes", bytes);
        }
        (self.enter)(Phase::Storing);
        self.wait_for(outputs::store(self.store, &spec, context))
    }

    /// Runs the attempt, and stores its outputs and its result. Errors: lost, if another process has stored a result.
    pub fn run_and_store(&self) -> Result<AttemptResult> {
        let result = self.result()?;
        match self.wait_for(self.store.put_result(&result))? {
            CreateOutcome::Ours => Ok(result),
            CreateOutcome::Theirs(_) => Err(stale(self.spec)),
        }
    }

    /// Runs the command as a further process of its attempt; its local files are discarded.
    pub fn run_node(&self, rank: u32) -> Result<()> {
        let (spec, places, mut context) = self.fetch(Arc::new(NoCheckpoints))?;
        guard_sources(&spec, &places, || {
            context.env.extend(self.rendezvous(&spec, rank).join()?);
            self.run_stage(&spec, &mut context, &nodes::mark(self.url, rank))
        })
    }

    /// Fetches all inputs and sources to this machine. Returns the spec with local paths, these paths, and the context.
    fn fetch(&self, checkpoints: Arc<dyn CheckpointStore>) -> Result<(AttemptSpec, UploadPaths, StageContext)> {
        (self.enter)(Phase::Fetching);
        let inputs = self.wait_for(materialize(self.store, self.spec, &self.scratch.join("inputs")))?;
        let places = self.wait_for(uploads::fetch(self.store, self.spec, &self.scratch.join("sources")))?;
        let spec = uploads::localize(self.spec, &places);
        let (cancel, reporter) = (self.cancel.clone(), self.reporter.clone());
        let mut context = context(&spec, inputs, self.scratch, cancel, reporter, checkpoints)?;
        context.requests = Arc::new(StoredRequests::new(self.store.clone(), self.handle.clone()));
        context.stop_if_cancelled()?;
        (self.enter)(Phase::Running);
        Ok((spec, places, context))
    }

    /// Runs the stage after all its peers have arrived.
    fn run(&self, spec: &AttemptSpec, context: &mut StageContext) -> Result<()> {
        context.env.extend(self.rendezvous(spec, 0).join()?);
        let count = rendezvous::nodes(spec);
        if count <= 1 {
            return self.run_stage(spec, context, self.url);
        }
        context.cancel = CancelToken::default();
        let stop = context.cancel.clone();
        let others = PeerNodes::new(self.store, spec, count, self.handle.clone());
        let mark = nodes::mark(self.url, 0);
        others.run_first_node(&self.cancel, &stop, || self.run_stage(spec, context, &mark))
    }

    fn rendezvous<'s>(&'s self, spec: &'s AttemptSpec, rank: u32) -> Rendezvous<'s> {
        Rendezvous { store: self.store, spec, rank, handle: self.handle.clone(), cancel: &self.cancel }
    }

    fn run_stage(&self, spec: &AttemptSpec, context: &mut StageContext, mark: &str) -> Result<()> {
        if spec.kind == RUN_KIND {
            return command::run(spec, context, mark, self.process_tree);
        }
        let stage = self.catalogue.stage(&spec.kind)?;
        let cancel = context.cancel.clone();
        memory::limited(spec, &cancel, || {
            catch_unwind(AssertUnwindSafe(|| stage.run(&spec.config, context))).unwrap_or_else(|panic| {
                Err(Error::bug(format!("stage `{}` panicked: {}", spec.kind, panic_text(&panic))))
            })
        })
    }

    fn wait_for<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(mut killed) = self.killed.clone() else { return self.handle.block_on(request) };
        self.handle.block_on(async {
            tokio::select! {
                biased;
                response = request => response,
                Ok(_) = killed.wait_for(|killed| *killed) => Err(Error::cancelled("the attempt was stopped")),
            }
        })
    }
}

/// Returns the context of a stage, with fetched inputs, one empty folder for each output, and the values of its
/// secrets. The context keeps responses of services in memory only.
pub fn context(
    spec: &AttemptSpec,
    inputs: BTreeMap<String, Vec<InputArtifact>>,
    scratch: &Path,
    cancel: CancelToken,
    reporter: Arc<dyn Reporter>,
    checkpoints: Arc<dyn CheckpointStore>,
) -> Result<StageContext> {
    let mut output_folders = BTreeMap::new();
    for port in spec.outputs.keys() {
        let folder = scratch.join("outputs").join(port);
        std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
        output_folders.insert(port.clone(), folder);
    }
    let work = scratch.join(WORK);
    if !scratch.as_os_str().is_empty() {
        std::fs::create_dir_all(&work).map_err(|e| io_error(&work, &e))?;
    }
    Ok(StageContext {
        cpus: spec.resources.cpus.max(1) as usize,
        cancel,
        reporter,
        checkpoints,
        requests: Arc::new(RequestsInMemory::default()),
        scratch: work,
        inputs,
        output_folders,
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        measured: BTreeMap::new(),
        metadata: BTreeMap::new(),
        env: spec.env.clone(),
        secrets: secrets::read(&spec.secrets)?,
    })
}

/// Returns the message of a panic.
pub fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".into())
}

/// Returns the peak resident memory of this process in bytes, or `None` if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
