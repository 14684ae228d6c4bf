//! One attempt from its submission, or its recovery, to its end.

use super::carried::{Carried, Heard, reaches};
use super::deadlines::SILENCE;
use super::driver::{Order, States};
use super::{conclusion, followed};
use crate::executors::{Control, Handle};
use crate::patience::growing;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use trainyard_core::attempt::CancelRequest;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};
use trainyard_engine::Finished;

/// How long a submission that is under way is waited for by whoever kills its attempt.
const LAST_CALL: Duration = Duration::from_secs(15);

impl Carried {
    /// Submits the attempt and follows it to its end.
    pub async fn launch(mut self) -> Finished {
        match self.submit().await {
            Ok((handle, states)) => self.carry_to_the_end(handle, states).await,
            Err(finished) => finished,
        }
    }

    /// Finds the attempt of an earlier engine and follows it to its end; `None` if nothing of it is left.
    pub async fn recover(mut self, handle: Option<Handle>) -> Option<Finished> {
        match self.reattach(handle).await {
            Err(stopped) => Some(stopped),
            Ok(Some(handle)) => {
                let (states, heard) = watch::channel(None);
                // If the driver is gone, the channel tells it.
                let _ = self.carrier.orders.send(Order::Watch { handle: handle.clone(), states });
                let (follow, control) = (self.follow.clone(), self.control.clone());
                let finished = self.carry_to_the_end(handle, heard).await;
                // Whoever stops the run does not want it either.
                let wanted = *control.borrow() == Control::Run;
                if wanted && finished.result.is_none() && follow.left().await.is_ok_and(|left| left.is_unwanted()) {
                    return None;
                }
                Some(finished)
            }
            Ok(None) => {
                let left = self.follow.left().await.ok()?;
                (left.is_something() && !left.is_unwanted())
                    .then(|| conclusion::conclude(left, None, None, self.task.timeout))
            }
        }
    }

    async fn carry_to_the_end(mut self, handle: Handle, states: Heard) -> Finished {
        if self.carrier.can.outlives_engine {
            self.news.submitted(&handle);
        }
        if self.carrier.can.relays {
            self.relayed(&handle, states).await
        } else {
            followed::follow(self, handle, states).await
        }
    }

    /// Asks until the executor takes the attempt, refuses it, or was out of reach for too long.
    async fn submit(&mut self) -> Result<(Handle, Heard), Finished> {
        let began = self.now();
        let mut failures = 0;
        loop {
            let (states, heard) = watch::channel(None);
            let error = match self.ask(states).await? {
                Ok(handle) => {
                    self.carrier.answers();
                    return Ok((handle, heard));
                }
                Err(error) => error,
            };
            failures += 1;
            let pool = self.carrier.pool.clone();
            if error.kind != ErrorKind::Retryable || self.now().saturating_sub(began) >= self.outage() {
                return Err(Finished::failed(AttemptOutcome::Failed, error.at(format!("pool `{pool}`"))));
            }
            tracing::info!(%pool, failures, %error, "an attempt was not taken");
            if self.carrier.is_news() {
                self.news.note(&format!("pool `{pool}` takes no attempts now, trying again: {error}"));
            }
            self.waiting.because(format!("pool `{pool}` does not take it now: {}", error.message));
            self.tell_waiting();
            if self.rest(growing(failures)).await {
                self.end_what_was_taken().await;
                return Err(stopped());
            }
        }
    }

    /// One submission through the driver. The outer error: it is to be killed, or there is no driver any more.
    async fn ask(&mut self, states: States) -> Result<trainyard_core::Result<Handle>, Finished> {
        let (answer, mut answered) = oneshot::channel();
        // If the driver is gone, the answer tells it.
        let _ = self.carrier.orders.send(Order::Submit { task: Box::new(self.task.clone()), answer, states });
        tokio::select! {
            biased;
            answer = &mut answered => answer.map_err(|_| {
                let error = Error::bug(format!("nobody drives pool `{}` any more", self.carrier.pool));
                Finished::failed(AttemptOutcome::Failed, error)
            }),
            () = reaches(&mut self.control, Control::Kill) => {
                if let Ok(Ok(Ok(handle))) = tokio::time::timeout(LAST_CALL, &mut answered).await {
                    // Whoever kills does not wait for an executor that is out of reach.
                    let _ = self.carrier.executor.cancel(&handle, Control::Kill).await;
                }
                Err(stopped())
            }
        }
    }

    /// A submission whose answer was lost may have been taken.
    async fn end_what_was_taken(&self) {
        if let Ok(Some(handle)) = self.carrier.executor.reattach(&self.task, None).await {
            // Whoever stops a run does not wait for an executor that is out of reach.
            let _ = self.carrier.executor.cancel(&handle, Control::Kill).await;
        }
    }

    /// Asks until the executor knows whether it has the attempt. As long as the attempt beats, it is waited for.
    async fn reattach(&mut self, handle: Option<Handle>) -> Result<Option<Handle>, Finished> {
        let (mut since, mut beat, mut failures) = (self.now(), None, 0);
        loop {
            let error = match self.carrier.executor.reattach(&self.task, handle.as_ref()).await {
                Ok(found) => {
                    self.waiting.over();
                    self.tell_waiting();
                    return Ok(found);
                }
                Err(error) => error,
            };
            failures += 1;
            let (stage, pool) = (&self.task.spec.stage, &self.carrier.pool);
            let found = self.follow.look(beat).await.unwrap_or_default();
            if found.left.is_something() {
                return Ok(None);
            }
            if let Some(heartbeat) = found.heartbeat.filter(|heartbeat| Some(heartbeat.beat) != beat) {
                (since, beat) = (self.now(), Some(heartbeat.beat));
            }
            let limit = if beat.is_some() { SILENCE } else { self.outage() };
            if error.kind != ErrorKind::Retryable || self.now().saturating_sub(since) >= limit {
                self.news.note(&format!("the attempt of {stage} on pool `{pool}` cannot be found again: {error}"));
                self.ask_to_end().await;
                return Ok(None);
            }
            tracing::info!(%pool, failures, %error, "an attempt of an earlier engine is not found yet");
            self.waiting.because(error.message);
            self.tell_waiting();
            if self.rest(growing(failures)).await {
                self.ask_to_end().await;
                return Err(stopped());
            }
        }
    }

    /// Should it live after all, it is not wanted any more.
    pub(super) async fn ask_to_end(&self) {
        let store = self.task.store.with_outage(Duration::ZERO);
        if let Err(error) = store.request_cancel(&self.task.spec, CancelRequest { format: 1, timed_out: false }).await {
            tracing::info!(%error, "the request to end was not stored");
        }
    }
}

fn stopped() -> Finished {
    Finished::failed(AttemptOutcome::Cancelled, Error::cancelled("stopped before it was started"))
}
