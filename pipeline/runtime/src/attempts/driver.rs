//! Drives the executor of one pool on behalf of the pool's attempts.
//!
//! The driver submits attempts that arrive at almost the same time with one request, and polls all states with one
//! request. Attempts continue while their executor is unreachable, so the driver only retries.

use crate::context::Observer;
use crate::executors::{AttemptState, AttemptTask, Control, Executor, Handle};
use crate::retry::backoff;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use trainyard_core::{Error, Result};

/// How long a launch waits for others to share its request. An executor that relays is on this machine, where a request
/// is cheap, so launches do not wait there.
const GATHER: Duration = Duration::from_millis(200);

/// Sender of an attempt's states; `None` before the first response.
pub(super) type StateSender = watch::Sender<Option<AttemptState>>;

/// Request of an attempt to its driver.
pub(super) enum DriverRequest {
    /// Submit the task, respond with its handle, and report its states.
    Submit { task: Box<AttemptTask>, response: oneshot::Sender<Result<Handle>>, states: StateSender },
    /// Report the states of an attempt that was submitted before.
    Watch { handle: Handle, states: StateSender },
}

pub(super) struct PoolDriver {
    pool: String,
    executor: Arc<dyn Executor>,
    observer: Arc<dyn Observer>,
    requests: UnboundedReceiver<DriverRequest>,
    live: Vec<(Handle, StateSender)>,
    /// Number of consecutive failed polls.
    failures: u32,
}

impl PoolDriver {
    pub fn new(
        pool: &str,
        executor: Arc<dyn Executor>,
        observer: Arc<dyn Observer>,
        requests: UnboundedReceiver<DriverRequest>,
    ) -> Self {
        Self { pool: pool.to_string(), executor, observer, requests, live: Vec::new(), failures: 0 }
    }

    /// Runs until all senders of requests are dropped, then kills the remaining attempts unless they outlive the
    /// engine.
    pub async fn run(mut self) {
        let executor = self.executor.clone();
        let mut changed: BoxFuture<'_, ()> = executor.changed();
        loop {
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    Some(request) => self.take(request).await,
                    None => break,
                },
                () = &mut changed, if !self.live.is_empty() => {
                    // Created before the poll, so that it covers changes during the poll.
                    changed = executor.changed();
                    if !self.poll().await {
                        let wait = backoff(self.failures);
                        changed = Box::pin(tokio::time::sleep(wait));
                    }
                }
            }
        }
        self.shut_down().await;
    }

    /// Executes a request together with those that arrive at the same time.
    async fn take(&mut self, request: DriverRequest) {
        let mut submissions = Vec::new();
        self.sort(request, &mut submissions);
        if !submissions.is_empty() && !self.executor.capabilities().relays {
            tokio::time::sleep(GATHER).await;
        }
        while let Ok(request) = self.requests.try_recv() {
            self.sort(request, &mut submissions);
        }
        self.submit(submissions).await;
    }

    fn sort(
        &mut self,
        request: DriverRequest,
        submissions: &mut Vec<(AttemptTask, oneshot::Sender<Result<Handle>>, StateSender)>,
    ) {
        match request {
            DriverRequest::Submit { task, response, states } => submissions.push((*task, response, states)),
            DriverRequest::Watch { handle, states } => self.live.push((handle, states)),
        }
    }

    async fn submit(&mut self, submissions: Vec<(AttemptTask, oneshot::Sender<Result<Handle>>, StateSender)>) {
        let (mut tasks, mut waiting) = (Vec::new(), Vec::new());
        // A closed response channel means that the attempt was stopped, or belongs to another engine by now.
        for (task, response, states) in submissions.into_iter().filter(|(_, response, _)| !response.is_closed()) {
            tasks.push(task);
            waiting.push((response, states));
        }
        if tasks.is_empty() {
            return;
        }
        tracing::debug!(pool = self.pool, attempts = tasks.len(), "attempts submitted");
        for (handle, (response, states)) in self.executor.submit(&tasks).await.into_iter().zip(waiting) {
            if let Ok(handle) = &handle {
                self.live.push((handle.clone(), states));
            }
            // If the receiver is dropped, so is the receiver of states, which the next poll detects.
            let _ = response.send(handle);
        }
    }

    /// Polls all states. Returns whether the executor responded.
    async fn poll(&mut self) -> bool {
        self.release().await;
        let handles: Vec<Handle> = self.live.iter().map(|(handle, _)| handle.clone()).collect();
        let result = match self.executor.poll(&handles).await {
            Ok(states) if states.len() == handles.len() => Ok(states),
            Ok(states) => Err(Error::bug(format!(
                "the executor was polled for {} states and returned {}",
                handles.len(),
                states.len()
            ))),
            Err(error) => Err(error),
        };
        match result {
            Ok(states) => {
                self.mark_reachable();
                self.publish_states(states);
                true
            }
            Err(error) => {
                self.mark_unreachable(&error);
                false
            }
        }
    }

    fn publish_states(&mut self, states: Vec<AttemptState>) {
        let mut states = states.into_iter();
        self.live.retain(|(_, sender)| {
            let Some(state) = states.next() else { return true };
            let continues = !matches!(state, AttemptState::Ended(_));
            let state = Some(state);
            sender.send_if_modified(|last| {
                let changed = *last != state;
                if changed {
                    *last = state;
                }
                changed
            });
            continues
        });
    }

    fn mark_reachable(&mut self) {
        if self.failures > 0 {
            self.observer.note(&format!("pool `{}` is reachable again", self.pool));
        }
        self.failures = 0;
    }

    fn mark_unreachable(&mut self, error: &Error) {
        tracing::info!(pool = self.pool, failures = self.failures, %error, "cannot poll the states of attempts");
        if self.failures == 0 {
            let pool = &self.pool;
            self.observer.note(&format!("pool `{pool}` is unreachable now, its attempts continue: {error}"));
        }
        self.failures += 1;
    }

    /// Forgets attempts without a follower, and kills them unless they outlive the engine.
    async fn release(&mut self) {
        let outlive = self.executor.capabilities().outlives_engine;
        let mut orphans = Vec::new();
        self.live.retain(|(handle, states)| {
            let followed = !states.is_closed();
            if !followed && !outlive {
                orphans.push(handle.clone());
            }
            followed
        });
        self.kill(&orphans).await;
    }

    /// Ends the driver when the run is over, or left to another engine.
    async fn shut_down(mut self) {
        let live = std::mem::take(&mut self.live);
        if !self.executor.capabilities().outlives_engine {
            let handles: Vec<Handle> = live.into_iter().map(|(handle, _)| handle).collect();
            self.kill(&handles).await;
        }
    }

    async fn kill(&self, handles: &[Handle]) {
        for handle in handles {
            if let Err(error) = self.executor.cancel(handle, Control::Kill).await {
                tracing::info!(pool = self.pool, handle = handle.0, %error, "cannot stop an attempt");
            }
        }
    }
}
