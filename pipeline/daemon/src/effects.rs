//! Defines the effects of a daemon outside of the store: starting and cancelling runs, and notifications. They are
//! injected, so that the scheduler can be simulated.

use crate::schedule::event::{SkipReason, Tick};
use futures::future::BoxFuture;
use trainyard_core::{Digest, Result, RunId};

/// Effects outside of the store.
pub trait DaemonEffects: Send + Sync {
    /// Returns whether the process with this name is alive; `None` if unknown, as for a process on another host.
    fn is_alive(&self, name: &str) -> Option<bool>;
    /// Starts a process that begins or resumes the run. The process outlives the daemon.
    fn start<'a>(&'a self, request: &'a StartRunRequest) -> BoxFuture<'a, Result<()>>;
    /// Returns the state of the process that this daemon started last for a run.
    fn process(&self, run: &RunId) -> RunProcessState;
    /// Forgets the process of a finished run, unless it is still alive.
    fn forget(&self, run: &RunId);
    /// Requests a run to stop, or writes the end of an abandoned run. Returns at once.
    fn cancel(&self, run: &RunId);
    /// Notifies users.
    fn notify(&self, notification: DaemonNotification);
}

/// A run to begin or resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRunRequest {
    pub schedule: String,
    pub run: RunId,
    /// Workflow file, as the definition names it.
    pub file: String,
    /// Digest of the texts that the file was compiled from.
    pub texts: Digest,
    pub tick: Tick,
    /// Arguments of `-p`; empty for a run of a schedule.
    pub params: Vec<String>,
}

/// Resumption of runs that no schedule continues.
pub trait RunResumer: Send + Sync {
    /// Starts a process that resumes a run, and waits a moment. The process outlives the daemon. Errors: invalid (the
    /// process ended at once; with the end of its stderr), retryable (it cannot be started).
    fn resume<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<()>>;
}

/// State of a process that this daemon started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProcessState {
    /// Not started by this daemon, or forgotten.
    None,
    Alive,
    Ended {
        /// Exit code; `None` if a signal ended the process.
        code: Option<i32>,
        /// End of its stderr.
        stderr: String,
    },
}

/// A notification for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonNotification {
    /// A tick was skipped or came too late.
    Missed {
        /// Schedule name.
        schedule: String,
        /// Tick.
        tick: Tick,
        /// Reason; `None` if the tick came too late.
        why: Option<SkipReason>,
        /// Number of earlier ticks skipped with it.
        passed_over: u64,
    },
    /// The run of a tick could not begin, or was given up.
    NotStarted {
        /// Schedule name.
        schedule: String,
        /// Tick.
        tick: Tick,
        /// Run id.
        run: RunId,
        /// Reason.
        why: String,
    },
    /// A workflow file has mistakes; its previous content remains valid.
    Broken {
        /// File name.
        file: String,
        /// Mistakes, one per line.
        why: String,
    },
}
