//! Does the common work of all attempts, supervised, detached or hosted: it fetches inputs, runs the stage and stores
//! outputs.

use super::checkpoints::StoredCheckpoints;
use super::command_checkpoints::{self, CommandCheckpoints};
use super::inputs::materialize;
use super::nodes::PeerNodes;
use super::process_tree::HostProcessTree;
use super::rendezvous::{self, Rendezvous};
use super::requests::StoredRequests;
use super::secrets;
use super::sources::guard_sources;
use super::stop::stale;
use super::store_wait::StoreWait;
use super::uploads::UploadPaths;
use super::{command, memory, outputs, uploads};
use crate::catalogue::Catalogue;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use trainyard_api::{CancelToken, CheckpointStore, InputArtifact, Reporter, StageContext};
use trainyard_core::attempt::{AttemptResult, AttemptSpec, Phase};
use trainyard_core::error::io_error;
use trainyard_core::{Clock, Error, Result, SystemClock, panics};
use trainyard_spec::run_stage::KIND as RUN_KIND;
use trainyard_store::{CreateOutcome, Store};

/// Name of the stage's working directory in the attempt's folder.
pub const WORK: &str = "work";

/// Parameters of an attempt.
pub struct AttemptRunner<'a> {
    /// URL of the attempt.
    pub url: &'a str,
    /// Mark in the environment of all processes that the attempt starts. It begins with the URL.
    pub mark: &'a str,
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
        let FetchedAttempt { spec, places, mut context, resumed } = self.fetch()?;
        guard_sources(&spec, &places, || {
            let started = clock.monotonic();
            self.run(&spec, &mut context, resumed)?;
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
        let FetchedAttempt { spec, places, mut context, resumed } = self.fetch()?;
        guard_sources(&spec, &places, || {
            context.env.extend(self.rendezvous(&spec, rank, resumed).join()?);
            self.run_stage(&spec, &mut context, &CommandCheckpoints { resumed, staging: None })
        })
    }

    /// Fetches all inputs and sources to this machine, and the resume point of a command.
    fn fetch(&self) -> Result<FetchedAttempt> {
        (self.enter)(Phase::Fetching);
        let inputs = self.wait_for(materialize(self.store, self.spec, &self.scratch.join("inputs")))?;
        let places = self.wait_for(uploads::fetch(self.store, self.spec, &self.scratch.join("sources")))?;
        let spec = uploads::localize(self.spec, &places);
        let (cancel, reporter) = (self.cancel.clone(), self.reporter.clone());
        let mut context = context(&spec, inputs, self.scratch, cancel, reporter, self.checkpoints())?;
        context.requests = Arc::new(StoredRequests::new(self.store.clone(), self.handle.clone()));
        context.stop_if_cancelled()?;
        // A stage of any other kind restores its resume point itself.
        let is_resumable = spec.kind == RUN_KIND && !rendezvous::is_companion(&spec);
        let resumed =
            if is_resumable { command_checkpoints::restore(&mut context, &self.scratch.join("resume"))? } else { None };
        (self.enter)(Phase::Running);
        Ok(FetchedAttempt { spec, places, context, resumed })
    }

    fn checkpoints(&self) -> Arc<dyn CheckpointStore> {
        let (store, reporter) = (self.store.clone(), self.reporter.clone());
        Arc::new(StoredCheckpoints::new(store, self.wait(), self.spec, self.scratch.join("checkpoint"), reporter))
    }

    /// Runs the stage after all its peers have arrived.
    fn run(&self, spec: &AttemptSpec, context: &mut StageContext, resumed: Option<u64>) -> Result<()> {
        context.env.extend(self.rendezvous(spec, 0, resumed).join()?);
        let staging = (!rendezvous::is_companion(spec)).then(|| self.scratch.join("staging"));
        let checkpoints = CommandCheckpoints { resumed, staging };
        let count = rendezvous::nodes(spec);
        if count <= 1 {
            return self.run_stage(spec, context, &checkpoints);
        }
        context.cancel = CancelToken::default();
        let stop = context.cancel.clone();
        let others = PeerNodes::new(self.store, spec, count, self.handle.clone());
        others.run_first_node(&self.cancel, &stop, || self.run_stage(spec, context, &checkpoints))
    }

    fn rendezvous<'s>(&'s self, spec: &'s AttemptSpec, rank: u32, resumed: Option<u64>) -> Rendezvous<'s> {
        Rendezvous { store: self.store, spec, rank, resumed, handle: self.handle.clone(), cancel: &self.cancel }
    }

    fn run_stage(
        &self,
        spec: &AttemptSpec,
        context: &mut StageContext,
        checkpoints: &CommandCheckpoints,
    ) -> Result<()> {
        if spec.kind == RUN_KIND {
            return command::run(spec, context, checkpoints, (self.url, self.mark), self.process_tree);
        }
        let stage = self.catalogue.stage(&spec.kind)?;
        let cancel = context.cancel.clone();
        memory::limited(spec, &cancel, || {
            panics::catch(|| stage.run(&spec.config, context))
                .unwrap_or_else(|message| Err(Error::bug(format!("stage `{}` panicked: {message}", spec.kind))))
        })
    }

    fn wait(&self) -> StoreWait {
        StoreWait { handle: self.handle.clone(), killed: self.killed.clone() }
    }
    fn wait_for<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait().wait_for(request)
    }
}

/// An attempt whose inputs are on this machine.
struct FetchedAttempt {
    /// Spec with local paths.
    spec: AttemptSpec,
    /// Local paths of the fetched sources.
    places: UploadPaths,
    context: StageContext,
    /// Step of the resume point that the command continues from.
    resumed: Option<u64>,
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
    secrets::mask(&spec.withheld);
    Ok(StageContext {
        cpus: spec.resources.cpus.max(1) as usize,
        cancel,
        inputs,
        output_folders,
        env: spec.env.clone(),
        secrets: secrets::read(&spec.secrets)?,
        ..StageContext::new(work, reporter, checkpoints)
    })
}

/// Returns the peak resident memory of this process in bytes, or `None` if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
