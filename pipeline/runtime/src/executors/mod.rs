//! Where attempts run: an executor starts them on its machines, and says what it knows of them.
//!
//! An attempt needs nothing but its URL: `spec.json` is in the store before it is submitted, `result.json` or
//! `failure.json` is there at its end, and in between it leaves heartbeats and chunks of log and metrics there
//! (`follow.rs` reads them). So an executor only carries a command line to a machine. One that holds the
//! attempt's pipes passes on what it says through [`Task::reports`] instead.

mod lines;
mod local;
mod ray;
mod registry;
mod slurm;
#[cfg(target_os = "linux")]
mod tree;

pub use lines::{Lines, TEXT_LIMIT};
pub use local::{Launcher, Local, LocalOptions, Order, Orphans, Said, is_host};
pub use ray::{Ray, RayOptions};
pub use registry::{ExecutorKind, Executors, Launching, kinds};
pub use slurm::{Slurm, SlurmOptions};
#[cfg(target_os = "linux")]
pub use tree::{kill_marked, kill_started};

// What implementations of the trait name.
pub use futures::future::BoxFuture;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::units::format_duration;
use trainyard_core::{Digest, Error, Result};
use trainyard_engine::{Grant, Outside};
use trainyard_store::Store;

/// Environment variable that marks every process of an attempt; its value is the attempt's URL.
pub const MARK: &str = "TRAINYARD_ATTEMPT";

/// Environment variable by which an executor tells an attempt that it holds the other end of its standard input, whose
/// end then means that the engine died; its value is the attempt's URL. Batch systems start their jobs on `/dev/null`.
pub const SUPERVISED: &str = "TRAINYARD_SUPERVISED";

/// Environment variable that lists the GPUs that a process may use; what it lists is made by [`visible`].
pub const GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// Environment variable that says what the indices of [`GPUS`] are.
pub const GPU_ORDER: &str = "CUDA_DEVICE_ORDER";

/// Its value for the indices of the driver's library; by itself CUDA puts the fastest first.
pub const BY_INDEX: &str = "PCI_BUS_ID";

/// GPUs by index, as [`GPUS`] lists them.
pub fn visible(gpus: &[u32]) -> String {
    gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Environment variable by which an executor that runs an attempt on several machines tells each of its processes which
/// it is: `<rank> <the attempt's URL>`, ranks from 0. The URL is there because commands inherit it. A process without
/// it is the only one.
pub const NODE: &str = "TRAINYARD_NODE";

/// Does nothing: without `/proc` the processes with an attempt's mark cannot be found.
#[cfg(not(target_os = "linux"))]
pub fn kill_marked(_: &str) -> usize {
    0
}

/// Does nothing, as [`kill_marked`].
#[cfg(not(target_os = "linux"))]
pub fn kill_started(_: &str) -> usize {
    0
}

/// One attempt to start.
#[derive(Clone)]
pub struct Task {
    /// What the attempt is told; it is in the store.
    pub spec: Arc<AttemptSpec>,
    /// What it may use.
    pub grant: Grant,
    /// The store that holds its folder.
    pub store: Store,
    /// Folder of the attempt in the store, without a trailing `/`.
    pub folder: String,
    /// Limit from the moment the attempt starts; the wait for a machine does not count.
    pub timeout: Option<Duration>,
    /// Where an executor that relays ([`Capabilities::relays`]) passes on what the attempt says.
    pub reports: Arc<dyn Reports>,
}

impl Task {
    /// The attempt's URL: the one argument of `trainyard attempt`, and the mark of its processes.
    pub fn url(&self) -> String {
        format!("{}#{}", self.store.url(), self.folder)
    }
    /// The name under which an executor submits the attempt, so that a second submission is refused or found: the same
    /// for the same attempt of the same store, at most 63 characters of `a-z 0-9 -`, a letter first.
    pub fn key(&self) -> String {
        format!("trainyard-{}", &Digest::of(self.url().as_bytes()).as_str()[..32])
    }
    /// What people see in the executor's lists: `<workflow>/<stage>`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.spec.workflow, self.spec.stage)
    }
}

/// An executor's own name of a submitted attempt, such as a job id. It is journaled, so that the next engine finds the
/// attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub String);

/// What an executor knows of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It waits for a machine, and why, in the executor's words.
    Pending {
        /// The reason, if the executor gives one.
        why: Option<String>,
    },
    /// It runs, or is about to.
    Started,
    /// It is over, and nothing of it runs any more. What the attempt left in the store counts more than this.
    Ended(Ended),
}

/// What an executor can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It holds the attempts' pipes and passes on what they say; otherwise the engine follows them in the store.
    pub relays: bool,
    /// Its attempts go on when the engine dies, so their handles are journaled and a fenced engine leaves them alone.
    pub outlives_engine: bool,
    /// Its machines see the files of this one under the same paths, so sources are not uploaded.
    pub shares_files: bool,
}

/// What the engine wants from a running attempt. It only ever goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Go on.
    Run,
    /// Stop soon and cleanly.
    Cancel,
    /// Stop now.
    Kill,
}

/// Receives what an attempt says.
pub trait Reports: Send + Sync {
    /// A message.
    fn message(&self, message: AttemptMessage);
    /// A line that is not a message (stderr, or stray stdout); it goes to the log.
    fn raw(&self, line: &str);
    /// The attempt waits for its machine, and why; without a reason it has what it waited for.
    fn waits(&self, why: Option<&str>);
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The outcome for the journal.
    pub outcome: AttemptOutcome,
    /// Its `result.json`, if it succeeded and the executor has read it.
    pub result: Option<Box<AttemptResult>>,
    /// Why it did not succeed.
    pub error: Option<Error>,
}

impl Ended {
    /// A success with the result that the attempt left in the store.
    pub fn succeeded(result: AttemptResult) -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: Some(Box::new(result)), error: None }
    }
    /// The process ended well, as far as the executor knows; the result is in the store.
    pub fn well() -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: None, error: None }
    }
    /// It was stopped on request.
    pub fn cancelled() -> Self {
        Self::with(AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped"))
    }
    /// It did not end within its time.
    pub fn timed_out(limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| format!(" of {}", format_duration(limit))).unwrap_or_default();
        let error = Error::retryable(format!("the attempt did not end within its timeout{limit}"))
            .help("raise `timeout`, or let the stage do less");
        Self::with(AttemptOutcome::TimedOut, error)
    }
    /// Any other outcome.
    pub fn with(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, result: None, error: Some(error) }
    }
}

/// A way to run attempts: one value for each pool that names it, built from the pool's options.
///
/// Errors of every function: retryable (it cannot be reached now; the caller asks again), invalid (it refuses, and
/// would refuse again).
pub trait Executor: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// Starts attempts with one request where it can; one answer for each task, in order. A task whose
    /// [`Task::key`] was submitted before, by anybody, is not started again: its handle is that of the first.
    fn submit<'a>(&'a self, tasks: &'a [Task]) -> BoxFuture<'a, Vec<Result<Handle>>>;
    /// The states of attempts with one request where it can, in order. One that the executor does not know any more
    /// has ended with [`AttemptOutcome::Lost`].
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<State>>>;
    /// Ends an attempt and all that it started. It is over when its state says so. The attempt was asked to stop by
    /// itself before ([`trainyard_core::attempt::CancelRequest`]) unless it is to be killed.
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>>;
    /// Finds an attempt that an earlier engine submitted, by its handle or, if the engine died before it journaled
    /// one, by its key; `None` if there is no such attempt.
    fn reattach<'a>(&'a self, task: &'a Task, handle: Option<&'a Handle>) -> BoxFuture<'a, Result<Option<Handle>>>;
    /// What the executor itself kept of the attempt's output: mostly the words of a program that could not start.
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        let _ = handle;
        Box::pin(async { Ok(String::new()) })
    }
    /// Why an attempt is where it is, in the executor's words and in some detail; `None` if it has nothing to say.
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        let _ = handle;
        Box::pin(async { Ok(None) })
    }
    /// Returns when [`Executor::poll`] may answer something new.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(POLL))
    }
    /// What other runs hold of this executor's machines now; `None` if it does not know.
    fn outside(&self) -> BoxFuture<'_, Option<Result<Outside>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Time between two looks at the states of an executor that cannot tell when they change.
pub const POLL: Duration = Duration::from_secs(2);
