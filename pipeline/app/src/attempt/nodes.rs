//! An attempt on several machines, as its first process sees it: that one is the attempt, the others help it.
//!
//! The others fetch, meet and run the same command, and say in the store how it ended (`member`); outputs, metrics and
//! the log are those of the first. It ends well only if all do: it stops at the first of them that failed, and waits
//! for the rest.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use trainyard_api::CancelToken;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::NodeEnd;
use trainyard_core::{Error, Result};
use trainyard_store::Store;

/// Time between two looks at the others.
const LOOK: Duration = Duration::from_secs(2);

/// The mark of what a process of the attempt starts: each kills its own only, should two be on one machine.
pub fn mark(url: &str, rank: u32) -> String {
    format!("{url} node {rank}")
}

/// The other processes of the attempt, as the first sees them.
pub struct Others {
    store: Store,
    spec: AttemptSpec,
    nodes: u32,
    handle: Handle,
    failed: Mutex<Option<Error>>,
}

impl Others {
    /// Those of an attempt on so many machines.
    pub fn new(store: &Store, spec: &AttemptSpec, nodes: u32, handle: Handle) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), spec: spec.clone(), nodes, handle, failed: Mutex::new(None) })
    }

    /// Carries out the work of the first process, stopped by `stop` if one of the others fails, then waits for them.
    /// `cancel` stops everything.
    pub fn beside(
        self: &Arc<Self>,
        cancel: &CancelToken,
        stop: &CancelToken,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let over = CancelToken::default();
        let (this, ends) = (self.clone(), (cancel.clone(), stop.clone(), over.clone()));
        let watching = std::thread::spawn(move || this.watch(&ends.0, &ends.1, &ends.2));
        let worked = work();
        over.cancel();
        // It only looks; if it panicked, the others are waited for below all the same.
        let _ = watching.join();
        if let Some(error) = self.failure() {
            return Err(error);
        }
        worked?;
        self.wait(cancel)
    }

    fn failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks until the work is over, or one of the others has failed.
    fn watch(&self, cancel: &CancelToken, stop: &CancelToken, over: &CancelToken) {
        while !over.is_cancelled() {
            if cancel.is_cancelled() || self.look().is_err() {
                return stop.cancel();
            }
            pause(LOOK, &[cancel, over]);
        }
    }

    /// Waits until the others have ended well.
    fn wait(&self, cancel: &CancelToken) -> Result<()> {
        while !self.look()? {
            if cancel.is_cancelled() {
                return Err(Error::cancelled("stopped while it waited for its other nodes"));
            }
            pause(LOOK, &[cancel]);
        }
        Ok(())
    }

    /// Whether all others have ended. Errors: that of the first that failed.
    fn look(&self) -> Result<bool> {
        let mut all = true;
        for rank in 1..self.nodes {
            match self.handle.block_on(self.store.node_end(&self.spec, rank)) {
                Ok(Some(NodeEnd { error: None, .. })) => {}
                Ok(Some(NodeEnd { error: Some(error), .. })) => {
                    let error = error.at(format!("node {rank}"));
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                    return Err(error);
                }
                Ok(None) => all = false,
                Err(error) => {
                    tracing::info!(rank, %error, "how a node ended could not be looked for");
                    all = false;
                }
            }
        }
        Ok(all)
    }
}

/// Sleeps, at most until one of them is set.
fn pause(time: Duration, tokens: &[&CancelToken]) {
    let step = Duration::from_millis(20);
    let mut slept = Duration::ZERO;
    while slept < time && !tokens.iter().any(|token| token.is_cancelled()) {
        std::thread::sleep(step);
        slept += step;
    }
}
