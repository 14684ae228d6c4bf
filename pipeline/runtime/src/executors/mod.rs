//! Where attempts run: an executor carries one attempt from launch to its end.
//!
//! All keep the same contract: `spec.json` is in the store before the launch, `result.json` is there after a success,
//! and in between the attempt talks in lines of [`AttemptMessage`].

mod lines;
mod local;
mod registry;
#[cfg(target_os = "linux")]
mod tree;

pub use lines::{Lines, TEXT_LIMIT};
pub use local::{Launcher, Local};
pub use registry::{ExecutorKind, Executors, Launching, kinds};
#[cfg(target_os = "linux")]
pub use tree::kill_marked;

// What implementations of the trait name.
pub use futures::future::BoxFuture;
pub use tokio::sync::watch;

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::{Grant, Outside};
use trainyard_store::Store;

/// Environment variable that marks every process of an attempt; its value is the attempt's URL.
pub const MARK: &str = "TRAINYARD_ATTEMPT";

/// Environment variable by which an executor tells an attempt that it holds the other end of its standard input, whose
/// end then means that the engine died; its value is the attempt's URL. Batch systems start their jobs on `/dev/null`.
pub const SUPERVISED: &str = "TRAINYARD_SUPERVISED";

/// Does nothing: without `/proc` the processes with an attempt's mark cannot be found.
#[cfg(not(target_os = "linux"))]
pub fn kill_marked(_: &str) -> usize {
    0
}

/// One attempt to carry out.
#[derive(Clone)]
pub struct Task {
    /// What the attempt is told.
    pub spec: Arc<AttemptSpec>,
    /// What it may use.
    pub grant: Grant,
    /// The store that holds its folder.
    pub store: Store,
    /// Folder of the attempt in the store, without a trailing `/`.
    pub folder: String,
    /// Limit from the moment the attempt starts; the wait for slots does not count.
    pub timeout: Option<Duration>,
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
    /// Its `result.json`, if it succeeded.
    pub result: Option<Box<AttemptResult>>,
    /// Why it did not succeed.
    pub error: Option<Error>,
}

impl Ended {
    /// A success with the result that the attempt left in the store.
    pub fn succeeded(result: AttemptResult) -> Self {
        Self { outcome: AttemptOutcome::Succeeded, result: Some(Box::new(result)), error: None }
    }
    /// Any other outcome.
    pub fn with(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, result: None, error: Some(error) }
    }
}

/// A way to run attempts.
pub trait Executor: Send + Sync {
    /// Its name in the site file's pools.
    fn name(&self) -> &'static str;
    /// Runs the attempt to its end: launches it, relays its messages, enforces the timeout, and cancels or kills its
    /// whole process tree on request. When the future completes, nothing of the attempt runs any more.
    fn run(
        &self,
        task: Task,
        control: watch::Receiver<Control>,
        reports: Arc<dyn Reports>,
    ) -> BoxFuture<'static, Ended>;
    /// Finds an attempt that a dead engine left behind, and waits for its end; `None` if nothing of it is left.
    fn reattach(
        &self,
        task: Task,
        control: watch::Receiver<Control>,
        reports: Arc<dyn Reports>,
    ) -> BoxFuture<'static, Option<Ended>>;
    /// What other runs hold of this executor's machines now; `None` if it does not know. May block for a moment.
    fn outside(&self) -> Option<Result<Outside>> {
        None
    }
}
