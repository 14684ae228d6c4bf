//! Follows the other processes of a multi-node attempt from its first process.
//!
//! The other processes (`member`) fetch the inputs, join the rendezvous, run the same command, and record in the store
//! how it ended. Outputs, metrics and the log come from the first process. The attempt succeeds only if all processes
//! succeed: it stops when one of them fails, and otherwise waits for all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use trainyard_api::CancelToken;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::peers::NodeEnd;
use trainyard_core::{Error, Result};
use trainyard_store::Store;

/// Interval between two checks of the other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The other processes of an attempt.
pub struct PeerNodes {
    store: Store,
    spec: AttemptSpec,
    nodes: u32,
    handle: Handle,
    failed: Mutex<Option<Error>>,
}

impl PeerNodes {
    /// Creates the followed processes of an attempt on `nodes` machines.
    pub fn new(store: &Store, spec: &AttemptSpec, nodes: u32, handle: Handle) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), spec: spec.clone(), nodes, handle, failed: Mutex::new(None) })
    }

    /// Runs `work`, the work of the first process, and then waits for the other processes. If another process fails,
    /// cancels `stop` and returns its error. `cancel` stops the work and the wait.
    pub fn run_first_node(
        self: &Arc<Self>,
        cancel: &CancelToken,
        stop: &CancelToken,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let over = CancelToken::default();
        let (this, ends) = (self.clone(), (cancel.clone(), stop.clone(), over.clone()));
        let watching = std::thread::spawn(move || this.watch(&ends.0, &ends.1, &ends.2));
        let outcome = work();
        over.cancel();
        // The thread only polls. If it panicked, the wait below still checks the other processes.
        let _ = watching.join();
        if let Some(error) = self.failure() {
            return Err(error);
        }
        outcome?;
        self.wait(cancel)
    }

    fn failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Polls the other processes until the work has ended; cancels `stop` if one of them has failed or the attempt is
    /// cancelled.
    fn watch(&self, cancel: &CancelToken, stop: &CancelToken, over: &CancelToken) {
        while !over.is_cancelled() {
            if cancel.is_cancelled() || self.poll().is_err() {
                return stop.cancel();
            }
            pause(POLL_INTERVAL, &[cancel, over]);
        }
    }

    /// Waits until all other processes have succeeded.
    fn wait(&self, cancel: &CancelToken) -> Result<()> {
        while !self.poll()? {
            if cancel.is_cancelled() {
                return Err(Error::cancelled("stopped while it waited for its other nodes"));
            }
            pause(POLL_INTERVAL, &[cancel]);
        }
        Ok(())
    }

    /// Returns whether all other processes have ended. Errors: that of the first one that failed.
    fn poll(&self) -> Result<bool> {
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
                    tracing::info!(rank, %error, "the end of a node could not be read");
                    all = false;
                }
            }
        }
        Ok(all)
    }
}

/// Sleeps for `time`, or until one of the tokens is cancelled.
fn pause(time: Duration, tokens: &[&CancelToken]) {
    let step = Duration::from_millis(20);
    let mut slept = Duration::ZERO;
    while slept < time && !tokens.iter().any(|token| token.is_cancelled()) {
        std::thread::sleep(step);
        slept += step;
    }
}
