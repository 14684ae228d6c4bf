//! Where attempts run. An executor carries one attempt from launch to its end; adding one is a file here and a line in
//! `registry.rs`. All speak the same contract: `spec.json` is in the store before the launch, `result.json` is there after a
//! success, and in between the attempt talks in [`AttemptMessage`] lines.

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

use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::{Grant, Outside};
use trainyard_store::Store;

/// Environment variable that marks every process of an attempt; its value is the attempt's URL.
pub const MARK: &str = "TRAINYARD_ATTEMPT";

/// Without `/proc` there is no finding what carries an attempt's mark; it ends with the attempt's process group.
#[cfg(not(target_os = "linux"))]
pub fn kill_marked(_: &str) -> usize {
    0
}

/// One attempt to carry out.
#[derive(Clone)]
pub struct Task {
    pub spec: Arc<AttemptSpec>,
    pub grant: Grant,
    pub store: Store,
    /// Folder of the attempt in the store, without a trailing `/`.
    pub folder: String,
    /// Counted from when the attempt really starts.
    pub timeout: Option<Duration>,
}

/// What the engine wishes of a running attempt; only ever goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    Run,
    /// Stop soon and cleanly.
    Cancel,
    /// Stop now.
    Kill,
}

/// Receives what an attempt says.
pub trait Reports: Send + Sync {
    /// A line of the message protocol.
    fn message(&self, message: AttemptMessage);
    /// A line that is no message (stderr, or stray stdout); kept as log.
    fn raw(&self, line: &str);
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// `Succeeded` means that `result.json` is in the store.
    pub outcome: AttemptOutcome,
    /// Why, unless it succeeded.
    pub error: Option<Error>,
}

impl Ended {
    pub fn succeeded() -> Self {
        Self { outcome: AttemptOutcome::Succeeded, error: None }
    }
    pub fn with(outcome: AttemptOutcome, error: Error) -> Self {
        Self { outcome, error: Some(error) }
    }
}

/// A way to run attempts.
pub trait Executor: Send + Sync {
    /// As pools name it.
    fn name(&self) -> &'static str;
    /// Launches the attempt and carries it to its end: launch, relay, timeout, cancel, kill of the whole process tree. When the
    /// future is done nothing of the attempt runs any more.
    fn run(&self, task: Task, wish: watch::Receiver<Wish>, reports: Arc<dyn Reports>) -> BoxFuture<'static, Ended>;
    /// Finds an attempt that an engine that died left behind: `None` if it is gone, else its end (which may take a while).
    fn reattach(
        &self,
        task: Task,
        wish: watch::Receiver<Wish>,
        reports: Arc<dyn Reports>,
    ) -> BoxFuture<'static, Option<Ended>>;
    /// What other runs hold of the machines of this executor's pools right now; `None` if it knows nothing of others. May block
    /// for a moment.
    fn outside(&self) -> Option<Result<Outside>> {
        None
    }
}
