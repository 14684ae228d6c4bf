//! A multi-node attempt from the view of its first process, which is the attempt; the other processes assist it.
//!
//! The others fetch, meet and run the same command, and record in the store how it ended (`member`); outputs, metrics
//! and the log are taken from the first. The attempt succeeds only if all processes do: it stops at the first that
//! failed, and waits for the rest.

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

/// Returns the mark of the processes that this rank starts: each rank kills only its own, should two share a machine.
pub fn mark(url: &str, rank: u32) -> String {
    format!("{url} node {rank}")
}

/// The other processes of the attempt, as seen by the first.
pub struct PeerNodes {
    store: Store,
    spec: AttemptSpec,
    nodes: u32,
    handle: Handle,
    failed: Mutex<Option<Error>>,
}

impl PeerNodes {
    /// Returns the others of an attempt on `nodes` machines.
    pub fn new(store: &Store, spec: &AttemptSpec, nodes: u32, handle: Handle) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), spec: spec.clone(), nodes, handle, failed: Mutex::new(None) })
    }

    /// Does the work of the first process, stopped by `stop` if one of the others fails, then waits for them. `cancel`
    /// stops everything.
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
        // The thread only watches; if it panicked, the others are still waited for below.
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

    /// Watches the others until the work has ended or one of them has failed.
    fn watch(&self, cancel: &CancelToken, stop: &CancelToken, over: &CancelToken) {
        while !over.is_cancelled() {
            if cancel.is_cancelled() || self.poll().is_err() {
                return stop.cancel();
            }
            pause(POLL_INTERVAL, &[cancel, over]);
        }
    }

    /// Waits until all others have succeeded.
    fn wait(&self, cancel: &CancelToken) -> Result<()> {
        while !self.poll()? {
            if cancel.is_cancelled() {
                return Err(Error::cancelled("stopped while it waited for its other nodes"));
            }
            pause(POLL_INTERVAL, &[cancel]);
        }
        Ok(())
    }

    /// Whether all others have ended. Errors: that of the first that failed.
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

/// Sleeps until the time is up or one of the tokens is set.
fn pause(time: Duration, tokens: &[&CancelToken]) {
    let step = Duration::from_millis(20);
    let mut slept = Duration::ZERO;
    while slept < time && !tokens.iter().any(|token| token.is_cancelled()) {
        std::thread::sleep(step);
        slept += step;
    }
}
