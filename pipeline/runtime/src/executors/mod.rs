//! Defines executors, each of which starts attempts on its machines and reports their states
//! (`docs/design/0012-executors.md`).
//!
//! An attempt needs only its URL: the engine stores `spec.json` before it submits the attempt, the attempt stores
//! heartbeats and chunks of log and metrics while it runs, and `result.json` or `failure.json` at its end.
//! `attempt_reader.rs` reads these objects. An executor therefore only transports a command line to a machine. An
//! executor that holds the attempt's pipes forwards its messages through [`AttemptTask::reports`] instead.

mod lines;
mod local;
mod ray;
mod registry;
mod slurm;
#[cfg(target_os = "linux")]
mod tree;

pub use lines::{LineSplitter, TEXT_LIMIT};
pub use local::{HostReport, HostRequest, Launcher, LocalExecutor, LocalOptions, Orphans, is_host};
pub use ray::{RayExecutor, RayOptions};
pub use registry::{ExecutorContext, ExecutorKind, Executors, kinds};
pub use slurm::{SlurmExecutor, SlurmOptions};
#[cfg(target_os = "linux")]
pub use tree::{kill_leftovers, kill_marked, kill_started, reap_adopted};

// Types in signatures of the trait.
pub use crate::control::Control;
pub use futures::future::BoxFuture;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Digest, Error, Result};
use trainyard_engine::{ExternalUsage, Grant};
use trainyard_store::Store;

/// Environment variable that marks every process of an attempt. Its value is the attempt's URL, and after a space the
/// id of the process that made the mark, unless the executor started that process itself.
pub const MARK: &str = trainyard_core::attempt::MARK;

/// Environment variable set by an executor that holds the other end of an attempt's standard input, whose end then
/// means that the engine died; its value is the attempt's URL. Batch systems start their jobs on `/dev/null`.
pub const SUPERVISED: &str = "TRAINYARD_SUPERVISED";

/// Environment variable that lists the GPUs that a process may use; [`format_gpus`] builds its value.
pub const GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// Environment variable that defines the order of the indices in [`GPUS`].
pub const GPU_ORDER: &str = "CUDA_DEVICE_ORDER";

/// Value of [`GPU_ORDER`] for the indices of the driver's library; CUDA's default order puts the fastest first.
pub const BY_INDEX: &str = "PCI_BUS_ID";

/// Formats GPU indices as a value of [`GPUS`].
pub fn format_gpus(gpus: &[u32]) -> String {
    gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Environment variable that an executor of multi-node attempts sets for each process: `<rank> <the attempt's URL>`,
/// ranks from 0. The URL is included because commands inherit the variable. Without it, a process is the only one of
/// its attempt.
pub const NODE: &str = "TRAINYARD_NODE";

/// Returns 0: without `/proc` the processes with an attempt's mark cannot be found.
#[cfg(not(target_os = "linux"))]
pub fn kill_marked(_: &str) -> usize {
    0
}

/// Returns 0, like [`kill_marked`].
#[cfg(not(target_os = "linux"))]
pub fn kill_started(_: &str) -> usize {
    0
}

/// Returns 0, like [`kill_marked`].
#[cfg(not(target_os = "linux"))]
pub fn kill_leftovers(_: &str) -> usize {
    0
}

/// Does nothing: only Linux has subreapers.
#[cfg(not(target_os = "linux"))]
pub fn reap_adopted() {}

/// Attempt to start.
#[derive(Clone)]
pub struct AttemptTask {
    /// Spec of the attempt; it is in the store.
    pub spec: Arc<AttemptSpec>,
    /// Resources granted to the attempt.
    pub grant: Grant,
    /// Store that contains the attempt's folder.
    pub store: Store,
    /// Folder of the attempt in the store, without a trailing `/`.
    pub folder: String,
    /// Time limit from the start of the attempt; the wait for a machine does not count.
    pub timeout: Option<Duration>,
    /// Receiver of the attempt's messages, for executors that relay ([`Capabilities::relays`]).
    pub reports: Arc<dyn AttemptReporter>,
}

impl AttemptTask {
    /// Returns the attempt's URL: the only argument of `trainyard attempt`, and the mark of its processes.
    pub fn url(&self) -> String {
        format!("{}#{}", self.store.url(), self.folder)
    }
    /// Returns the idempotency key under which an executor submits the attempt, so that a second submission is refused
    /// or found. The key depends only on the store and the attempt. It has at most 63 characters of `a-z 0-9 -` and
    /// begins with a letter.
    pub fn key(&self) -> String {
        format!("trainyard-{}", &Digest::of(self.url().as_bytes()).as_str()[..32])
    }
    /// Returns the title shown in the executor's lists: `<workflow>/<stage>`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.spec.workflow, self.spec.stage)
    }
}

/// Executor-specific id of a submitted attempt, such as a job id. It is journaled, so that the next engine finds the
/// attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub String);

/// State of an attempt, as known to the executor.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptState {
    /// The attempt waits for a machine.
    Pending {
        /// Reason, if the executor gives one.
        why: Option<String>,
    },
    /// The attempt runs, or is about to.
    Started,
    /// The attempt is over, and all of its processes have ended. Its objects in the store take precedence over this
    /// end.
    Ended(AttemptExit),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the executor holds the attempts' pipes and forwards their messages; otherwise the engine follows
    /// attempts in the store.
    pub relays: bool,
    /// Whether attempts continue when the engine dies; if so, their handles are journaled and a fenced engine leaves
    /// them alone.
    pub outlives_engine: bool,
    /// Whether the executor's machines see the files of this machine under the same paths; if so, sources are not
    /// uploaded.
    pub shares_files: bool,
}

/// Receives the messages of an attempt.
pub trait AttemptReporter: Send + Sync {
    fn message(&self, message: AttemptMessage);
    /// Receives a line that is not a message (stderr, or stray stdout), for the log.
    fn raw(&self, line: &str);
    /// Receives the reason why the attempt waits for its machine, or `None` when the wait is over.
    fn waits(&self, why: Option<&str>);
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptExit {
    /// Outcome for the journal.
    pub outcome: AttemptOutcome,
    /// `result.json` of the attempt, if it succeeded and the executor has read it.
    pub result: Option<Box<AttemptResult>>,
    /// Why the attempt did not succeed.
    pub error: Option<Error>,
}

impl AttemptExit {
    /// Creates a success with the result that the attempt left in the store.
    pub fn succeeded(result: AttemptResult) -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: Some(Box::new(result)), error: None }
    }
    /// Creates a success as far as the executor knows; the result is in the store.
    pub fn succeeded_unread() -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: None, error: None }
    }
    /// Creates the end of an attempt that was stopped on request.
    pub fn cancelled() -> Self {
        Self::with_error(AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped"))
    }
    /// Creates the end of an attempt that exceeded its timeout.
    pub fn timed_out(limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| format!(" of {}", format_duration(limit))).unwrap_or_default();
        let error = Error::retryable(format!("the attempt did not end within its timeout{limit}"))
            .help("raise `timeout`, or let the stage do less");
        Self::with_error(AttemptOutcome::TimedOut, error)
    }
    /// Creates the end of an attempt that did not succeed.
    pub fn with_error(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, result: None, error: Some(error) }
    }
}

/// Backend that runs attempts: one value per pool, built from the pool's options.
///
/// Errors of every function: retryable (the executor is unreachable now; the caller retries), invalid (the executor
/// refuses, and would refuse again).
pub trait Executor: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    /// Starts attempts, with one request if possible; returns one result per task, in order. A task whose
    /// [`AttemptTask::key`] was submitted before, by any client, is not started again: the result is the handle of the
    /// first submission.
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>>;
    /// Returns the states of attempts, with one request if possible, in order. An attempt that the executor does not
    /// know any more has ended with [`AttemptOutcome::Lost`].
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>>;
    /// Ends an attempt and all processes that it started. The attempt is over once its state is
    /// [`AttemptState::Ended`]. The attempt itself was requested to stop before
    /// ([`trainyard_core::attempt::CancelRequest`]), except for a kill.
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>>;
    /// Finds an attempt that an earlier engine submitted, by its handle or, if the engine died before it journaled one,
    /// by its key; returns `None` if there is no such attempt.
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>>;
    /// Returns the attempt's output as kept by the executor: in most cases the error of a program that could not start.
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        let _ = handle;
        Box::pin(async { Ok(String::new()) })
    }
    /// Explains the state of an attempt in some detail, with facts of the executor; returns `None` if there are no
    /// facts.
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        let _ = handle;
        Box::pin(async { Ok(None) })
    }
    /// Waits until [`Executor::poll`] may have a new result.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(POLL))
    }
    /// Returns the resources of this executor's machines that other runs hold now; `None` if unknown.
    fn external_usage(&self) -> BoxFuture<'_, Option<Result<ExternalUsage>>> {
        Box::pin(std::future::ready(None))
    }
    /// Describes who holds this executor's machines now; `None` if unknown.
    fn external_holders(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

/// Poll interval of executors that cannot notify about changes.
pub const POLL: Duration = Duration::from_secs(2);
