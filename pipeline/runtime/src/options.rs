//! Defines the options of a run, the request to interrupt it, and its result.

use crate::signals::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;
use trainyard_core::event::{RunOutcome, Selection};
use trainyard_core::{Error, Result, RunId};
use trainyard_engine::fold::RunView;

/// Options of one call of [`crate::run()`].
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Part of the plan to run.
    pub selection: Selection,
    /// Stop the run at the first failed stage.
    pub fail_fast: bool,
    /// Start a new run even if an unfinished one of the same plan exists.
    pub new: bool,
    /// Take over an unfinished run even if its writer seems alive.
    pub take_over: bool,
    /// Resume this run instead of searching for one; it may also be one that failed or was cancelled.
    pub resume: Option<RunId>,
    /// Begin the run with this id, or resume it if it has begun and is not over. The caller is responsible for the id:
    /// runs of the same plan are not searched for.
    pub named: Option<RunId>,
    /// Raised by signals, or by any other request to stop the run.
    pub interrupt: Interrupt,
}

/// Number of the signal that ends the process unconditionally.
const GIVE_UP: u8 = 3;
/// Exit code of an interrupted command.
const INTERRUPTED: i32 = 130;

/// Request to stop that any task can raise: once to stop cleanly, twice to kill.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(AtomicU8, Notify)>);

impl Interrupt {
    /// Raises the request by one level.
    pub fn raise(&self) {
        let _ = self.0.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.saturating_add(1)));
        self.0.1.notify_waiters();
    }
    /// Returns how often the request has been raised.
    pub fn level(&self) -> u8 {
        self.0.0.load(Ordering::SeqCst)
    }
    /// Waits until the request has been raised more often than `seen`.
    pub async fn beyond(&self, seen: u8) {
        loop {
            let notified = self.0.1.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.level() > seen {
                return;
            }
            notified.await;
        }
    }
    /// Raises the request at every SIGINT (Ctrl-C), SIGTERM and SIGHUP that this process receives from now on; the
    /// third signal ends the process with code 130. An ignored SIGHUP (`nohup`) stays ignored.
    ///
    /// Signals are handled on a separate thread: a hanging disk may block every thread of the caller's runtime, and
    /// then the third signal is the only way out. Errors: retryable (no thread, or no runtime for it).
    pub fn on_signals(&self) -> Result<()> {
        let this = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::retryable(format!("no runtime for signals: {e}")))?;
        let mut signals = {
            let _inside = runtime.enter();
            Signals::listen()
        };
        let listen = async move {
            loop {
                signals.next().await;
                this.raise();
                if this.level() >= GIVE_UP {
                    std::process::exit(INTERRUPTED);
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(listen));
        thread.map(drop).map_err(|e| Error::retryable(format!("no thread for signals: {e}")))
    }
}

/// How a call of [`crate::run()`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnding {
    Finished(RunOutcome),
    /// Another writer owns the run now. This writer published nothing more, and stopped its attempts except those that
    /// outlive the engine.
    Fenced {
        /// Name of the new writer.
        by: String,
    },
}

/// Result of [`crate::run()`].
#[derive(Debug, Clone)]
pub struct RunSummary {
    pub run: RunId,
    pub ending: RunEnding,
    /// Whether an unfinished run was taken over.
    pub resumed: bool,
    /// Fold of the whole journal.
    pub view: RunView,
}
