//! What the caller of a run may choose, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;
use trainyard_core::RunId;
use trainyard_core::event::{RunOutcome, Selection};
use trainyard_engine::fold::RunView;

/// How to run a plan.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    pub selection: Selection,
    /// The first failed stage stops the run.
    pub fail_fast: bool,
    /// Starts afresh even if an unfinished run of the same plan exists.
    pub new: bool,
    /// Takes an unfinished run over even if its writer seems alive.
    pub take_over: bool,
    /// Resumes this run instead of looking for one (also a finished one that failed or was cancelled).
    pub resume: Option<RunId>,
    /// Ctrl-C, or any other wish to stop.
    pub interrupt: Interrupt,
}

/// A wish to stop that can be raised from a signal handler's task: once = stop gracefully, twice = kill.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(AtomicU8, Notify)>);

impl Interrupt {
    /// Raises it by one level.
    pub fn raise(&self) {
        let _ = self.0.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.saturating_add(1)));
        self.0.1.notify_waiters();
    }
    /// How often it was raised.
    pub fn level(&self) -> u8 {
        self.0.0.load(Ordering::SeqCst)
    }
    /// Returns once it was raised more often than `seen`.
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
    /// Raises it at every Ctrl-C (SIGINT) and SIGTERM of this process, as long as the tokio runtime lives.
    pub fn on_signals(&self) {
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                wait_for_signal().await;
                this.raise();
            }
        });
    }
}

#[cfg(unix)]
async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(not(unix))]
async fn wait_for_signal() {
    let _ = tokio::signal::ctrl_c().await;
}

/// How a call of [`crate::run`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The run finished.
    Finished(RunOutcome),
    /// Another writer owns the run now; this one stopped its attempts and published nothing more.
    Fenced { by: String },
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct RunSummary {
    pub run: RunId,
    pub ending: Ending,
    /// True: an unfinished run was taken over.
    pub resumed: bool,
    /// The fold of the whole journal.
    pub view: RunView,
}
