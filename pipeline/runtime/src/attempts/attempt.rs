//! Submits one attempt, or recovers it from an earlier engine, and follows it to its end.

use super::deadlines::SILENCE;
use super::driver::{DriverRequest, StateSender};
use super::supervisor::{AttemptSupervisor, StateReceiver, wait_for_control};
use super::{conclusion, follower};
use crate::executors::{Control, Handle};
use crate::retry::backoff;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use trainyard_core::attempt::CancelRequest;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};
use trainyard_engine::AttemptCompletion;

/// How long a kill waits for a pending submission of its attempt.
const SUBMISSION_GRACE: Duration = Duration::from_secs(15);

impl AttemptSupervisor {
    /// Submits the attempt and follows it to its end.
    pub async fn launch(mut self) -> AttemptCompletion {
        match self.submit().await {
            Ok((handle, states)) => self.follow_to_end(handle, states).await,
            Err(finished) => finished,
        }
    }

    /// Recovers the attempt of an earlier engine and follows it to its end. Returns `None` if the executor does not
    /// have the attempt and the attempt left neither result nor failure, or if it stopped only because it seemed
    /// unwanted.
    pub async fn recover(mut self, handle: Option<Handle>) -> Option<AttemptCompletion> {
        match self.reattach(handle).await {
            Err(stopped) => Some(stopped),
            Ok(Some(handle)) => {
                let (states, state_receiver) = watch::channel(None);
                // If the driver has ended, the channel is closed.
                let _ = self.client.requests.send(DriverRequest::Watch { handle: handle.clone(), states });
                let (follow, control) = (self.follow.clone(), self.control.clone());
                let finished = self.follow_to_end(handle, state_receiver).await;
                // A stopped run does not start the attempt again.
                let running = *control.borrow() == Control::Run;
                if running
                    && finished.result.is_none()
                    && follow.final_objects().await.is_ok_and(|objects| objects.is_unwanted())
                {
                    return None;
                }
                Some(finished)
            }
            Ok(None) => {
                let objects = self.follow.final_objects().await.ok()?;
                (objects.is_present() && !objects.is_unwanted())
                    .then(|| conclusion::conclude(objects, None, None, self.task.timeout))
            }
        }
    }

    async fn follow_to_end(mut self, handle: Handle, states: StateReceiver) -> AttemptCompletion {
        if self.client.capabilities.outlives_engine {
            self.notifier.submitted(&handle);
        }
        if self.client.capabilities.relays {
            self.relayed(&handle, states).await
        } else {
            follower::follow(self, handle, states).await
        }
    }

    /// Retries the submission until the executor accepts or refuses the attempt, the executor was unreachable for too
    /// long, or the engine stops the attempt. The error is the end of the attempt.
    async fn submit(&mut self) -> Result<(Handle, StateReceiver), AttemptCompletion> {
        let began = self.now();
        let mut failures = 0;
        loop {
            let (states, state_receiver) = watch::channel(None);
            let error = match self.submit_once(states).await? {
                Ok(handle) => {
                    self.client.mark_available();
                    return Ok((handle, state_receiver));
                }
                Err(error) => error,
            };
            failures += 1;
            let pool = self.client.pool.clone();
            if error.kind != ErrorKind::Retryable || self.now().saturating_sub(began) >= self.outage() {
                return Err(AttemptCompletion::failed(AttemptOutcome::Failed, error.at(format!("pool `{pool}`"))));
            }
            tracing::info!(%pool, failures, %error, "the pool did not accept an attempt");
            if self.client.mark_unavailable() {
                self.notifier.note(&format!("pool `{pool}` accepts no attempts now, trying again: {error}"));
            }
            self.waiting.set_reason(format!("pool `{pool}` does not accept the attempt now: {}", error.message));
            self.report_wait();
            if self.sleep(backoff(failures)).await {
                self.cancel_pending_submission().await;
                return Err(stopped());
            }
        }
    }

    /// Submits once through the driver. The outer error is the end of an attempt that was killed, or whose driver has
    /// ended.
    async fn submit_once(&mut self, states: StateSender) -> Result<trainyard_core::Result<Handle>, AttemptCompletion> {
        let (response, mut receiver) = oneshot::channel();
        // If the driver has ended, the response channel is closed.
        let _ =
            self.client.requests.send(DriverRequest::Submit { task: Box::new(self.task.clone()), response, states });
        tokio::select! {
            biased;
            response = &mut receiver => response.map_err(|_| {
                let error = Error::bug(format!("the driver of pool `{}` has ended", self.client.pool));
                AttemptCompletion::failed(AttemptOutcome::Failed, error)
            }),
            () = wait_for_control(&mut self.control, Control::Kill) => {
                if let Ok(Ok(Ok(handle))) = tokio::time::timeout(SUBMISSION_GRACE, &mut receiver).await {
                    // A kill does not wait for an unreachable executor.
                    let _ = self.client.executor.cancel(&handle, Control::Kill).await;
                }
                Err(stopped())
            }
        }
    }

    /// Cancels the attempt in case a submission without a response was accepted.
    async fn cancel_pending_submission(&self) {
        if let Ok(Some(handle)) = self.client.executor.reattach(&self.task, None).await {
            // A stop does not wait for an unreachable executor.
            let _ = self.client.executor.cancel(&handle, Control::Kill).await;
        }
    }

    /// Retries until the executor reports whether it has the attempt. The time limit restarts with each new heartbeat
    /// of the attempt. After the limit, requests the attempt to stop and returns `None`, as for an attempt that has
    /// ended. The error is the end of an attempt that the engine stopped meanwhile.
    async fn reattach(&mut self, handle: Option<Handle>) -> Result<Option<Handle>, AttemptCompletion> {
        let (mut since, mut beat, mut failures) = (self.now(), None, 0);
        loop {
            let error = match self.client.executor.reattach(&self.task, handle.as_ref()).await {
                Ok(found) => {
                    self.waiting.clear();
                    self.report_wait();
                    return Ok(found);
                }
                Err(error) => error,
            };
            failures += 1;
            let (stage, pool) = (&self.task.spec.stage, &self.client.pool);
            let found = self.follow.read(beat).await.unwrap_or_default();
            if found.final_objects.is_present() {
                return Ok(None);
            }
            if let Some(heartbeat) = found.heartbeat.filter(|heartbeat| Some(heartbeat.beat) != beat) {
                (since, beat) = (self.now(), Some(heartbeat.beat));
            }
            let limit = if beat.is_some() { SILENCE } else { self.outage() };
            if error.kind != ErrorKind::Retryable || self.now().saturating_sub(since) >= limit {
                self.notifier.note(&format!("cannot find the attempt of {stage} on pool `{pool}` again: {error}"));
                self.request_cancel().await;
                return Ok(None);
            }
            tracing::info!(%pool, failures, %error, "cannot find an attempt of an earlier engine yet");
            self.waiting.set_reason(error.message);
            self.report_wait();
            if self.sleep(backoff(failures)).await {
                self.request_cancel().await;
                return Err(stopped());
            }
        }
    }

    /// Requests the end of the attempt in the store, in case it is still alive.
    pub(super) async fn request_cancel(&self) {
        let store = self.task.store.with_outage(Duration::ZERO);
        if let Err(error) = store.request_cancel(&self.task.spec, CancelRequest { format: 1, timed_out: false }).await {
            tracing::info!(%error, "cannot store the cancel request");
        }
    }
}

fn stopped() -> AttemptCompletion {
    AttemptCompletion::failed(AttemptOutcome::Cancelled, Error::cancelled("stopped before it was started"))
}
