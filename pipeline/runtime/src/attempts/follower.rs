//! Follows an attempt that has no pipe to this process, by its objects in the store and the states that its executor
//! reports.

use super::conclusion::conclude;
use super::deadlines::{DeadlineAction, Deadlines};
use super::supervisor::{AttemptSupervisor, StateReceiver, wait_beyond_control, waits_for_a_machine};
use crate::attempt_reader::{AttemptSnapshot, FinalObjects};
use crate::executors::{AttemptExit, AttemptState, Control, Handle};
use crate::logs::LogSink;
use crate::retry::backoff;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::JoinSet;
use trainyard_core::attempt::{AttemptMessage, CancelRequest, Heartbeat};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::AttemptCompletion;

/// Time between two reads of the store: a local disk is cheap to read, a bucket is not. An attempt sends a heartbeat
/// every 10 s.
const POLL_LOCAL: Duration = Duration::from_secs(5);
const POLL_REMOTE: Duration = Duration::from_secs(10);
/// Time between two checks of the deadlines.
const TICK: Duration = Duration::from_secs(1);
/// Retry delays for the result of an attempt that succeeded according to its executor: a network file system may show
/// it late.
const RESULT_RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];
/// Time limit of the last request to kill an attempt whose executor has not reported its end.
const LAST_REQUEST: Duration = Duration::from_secs(60);
/// Maximum number of bytes that are appended from the executor's log to the attempt's log.
const LOG_TAIL_BYTES: usize = 64 * 1024;

/// Pending read, with the time at which it began.
type PendingRead = Pin<Box<dyn Future<Output = (Duration, Result<AttemptSnapshot>)> + Send>>;

/// Attempt that is being followed.
struct StoreFollower {
    attempt: AttemptSupervisor,
    handle: Handle,
    deadlines: Deadlines,
    /// Control last requested by the engine.
    level: Control,
    /// Pending read of the store.
    pending_read: Option<PendingRead>,
    next_read: Duration,
    /// Objects that the attempt left, once a read has found them.
    final_objects: FinalObjects,
    /// Progress and checkpoint that were last forwarded.
    progress: Option<AttemptMessage>,
    checkpoint: Option<u64>,
    /// Requests that are retried until they succeed, or the attempt is over.
    requests: JoinSet<()>,
}

/// Follows an attempt to its end.
pub(super) async fn follow(attempt: AttemptSupervisor, handle: Handle, states: StateReceiver) -> AttemptCompletion {
    let now = attempt.now();
    let mut follower = StoreFollower {
        deadlines: Deadlines::new(now, attempt.task.timeout)
            .waiting_at_most(attempt.wait())
            .first_beat_within(attempt.client.first_heartbeat),
        attempt,
        handle,
        level: Control::Run,
        pending_read: None,
        next_read: now,
        final_objects: FinalObjects::default(),
        progress: None,
        checkpoint: None,
        requests: JoinSet::new(),
    };
    let ended = follower.until_it_ends(states).await;
    follower.conclude(ended).await
}

impl StoreFollower {
    /// Returns the end reported by the executor, or `None` if the wait for it was given up.
    async fn until_it_ends(&mut self, mut states: StateReceiver) -> Option<AttemptExit> {
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(AttemptState::Ended(ended)) = state {
                return Some(ended);
            }
            self.record_state(state);
            if self.run_due_actions() {
                return None;
            }
            self.begin_read();
            tokio::select! {
                biased;
                changed = states.changed() => if changed.is_err() {
                    let error = Error::bug("the driver of this pool has ended");
                    return Some(AttemptExit::with_error(AttemptOutcome::Failed, error));
                },
                () = wait_beyond_control(&mut self.attempt.control, self.level) => {
                    self.level = *self.attempt.control.borrow();
                    self.deadlines.record_control(self.attempt.now(), self.level);
                }
                (requested_at, found) = await_read(&mut self.pending_read) => {
                    self.pending_read = None;
                    self.record_read(requested_at, found);
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Records a state reported by the executor.
    fn record_state(&mut self, state: Option<AttemptState>) {
        if let Some(state) = state {
            self.deadlines.state(self.attempt.now(), &state);
            match state {
                AttemptState::Pending { why } => {
                    self.attempt.waiting.set_reason(why.unwrap_or_else(waits_for_a_machine))
                }
                AttemptState::Started | AttemptState::Ended(_) => self.attempt.waiting.clear(),
            }
        }
        self.attempt.report_wait();
    }

    fn begin_read(&mut self) {
        let now = self.attempt.now();
        if self.pending_read.is_some() || now < self.next_read {
            return;
        }
        let is_local = self.attempt.task.store.local_root().is_some();
        self.next_read = now + if is_local { POLL_LOCAL } else { POLL_REMOTE };
        let (follow, beat) = (self.attempt.follow.clone(), self.deadlines.last_beat());
        self.pending_read = Some(Box::pin(async move { (now, follow.read(beat).await) }));
    }

    /// Records the result of a read.
    fn record_read(&mut self, requested_at: Duration, found: Result<AttemptSnapshot>) {
        let now = self.attempt.now();
        match found {
            Ok(AttemptSnapshot { heartbeat, final_objects }) => {
                self.deadlines.beats(requested_at, now, heartbeat.as_ref().map(|heartbeat| heartbeat.beat));
                self.pass_on(heartbeat);
                if final_objects.is_present() {
                    self.deadlines.record_outcome(now);
                    self.final_objects = final_objects;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the state of the attempt");
                self.deadlines.record_failed_read(now);
            }
        }
    }

    /// Forwards progress and checkpoints that are new in a heartbeat.
    fn pass_on(&mut self, heartbeat: Option<Heartbeat>) {
        let Some(heartbeat) = heartbeat else { return };
        if let Some(step) = heartbeat.checkpoint.filter(|step| self.checkpoint.is_none_or(|before| *step > before)) {
            self.checkpoint = Some(step);
            self.attempt.notifier.pass_on(&AttemptMessage::Checkpoint { step });
        }
        if heartbeat.progress.is_some() && heartbeat.progress != self.progress {
            self.progress = heartbeat.progress;
            self.progress.iter().for_each(|progress| self.attempt.notifier.pass_on(progress));
        }
    }

    /// Starts the requests that are due. Returns whether to stop waiting for the executor.
    fn run_due_actions(&mut self) -> bool {
        while let Some(due) = self.deadlines.due(self.attempt.now()) {
            match due {
                DeadlineAction::GiveUp => return true,
                DeadlineAction::Request { timed_out } => {
                    let (store, spec) = (self.attempt.task.store.clone(), self.attempt.task.spec.clone());
                    self.requests.spawn(retry_until_ok(move || {
                        let (store, spec) = (store.clone(), spec.clone());
                        async move { store.request_cancel(&spec, CancelRequest { format: 1, timed_out }).await }
                    }));
                }
                DeadlineAction::Stop(control) => {
                    let (executor, handle) = (self.attempt.client.executor.clone(), self.handle.clone());
                    self.requests.spawn(retry_until_ok(move || {
                        let (executor, handle) = (executor.clone(), handle.clone());
                        async move { executor.cancel(&handle, control).await }
                    }));
                }
            }
        }
        false
    }

    async fn conclude(mut self, ended: Option<AttemptExit>) -> AttemptCompletion {
        self.requests.abort_all();
        if ended.is_none() {
            self.kill_in_the_background();
        }
        let why = self.deadlines.why();
        let succeeded = |ended: &AttemptExit| ended.error.is_none() && ended.result.is_none();
        let must_have_result = why.is_none() && ended.as_ref().is_some_and(succeeded);
        let mut objects = match self.read_final_objects(must_have_result).await {
            Ok(objects) => objects,
            Err(error) => {
                return AttemptCompletion::failed(AttemptOutcome::Failed, error.at("reading the attempt's result"));
            }
        };
        objects.result = objects.result.or_else(|| ended.as_ref().and_then(|ended| ended.result.as_deref().cloned()));
        if objects.result.is_none() {
            // The last heartbeat may have a later resume point than the last read.
            let last = self.attempt.follow.last_heartbeat().await;
            self.pass_on(last);
        }
        if !objects.is_present() {
            // An attempt may still run on a node that is cut off, or on one that its cluster's restarted head forgot.
            if ended.as_ref().is_some_and(|ended| ended.outcome == AttemptOutcome::Lost) {
                self.attempt.request_cancel().await;
            }
            self.append_executor_log().await;
        }
        conclude(objects, why, ended, self.attempt.task.timeout)
    }

    /// Kills an attempt that is concluded but that its executor has not reported as over.
    fn kill_in_the_background(&self) {
        let (executor, handle) = (self.attempt.client.executor.clone(), self.handle.clone());
        tokio::spawn(tokio::time::timeout(LAST_REQUEST, async move {
            if let Err(error) = executor.cancel(&handle, Control::Kill).await {
                tracing::info!(handle = handle.0, %error, "cannot stop an attempt");
            }
        }));
    }

    /// Returns the objects that the attempt left. With `must_have_result`, a missing result is retried for a while.
    async fn read_final_objects(&mut self, must_have_result: bool) -> Result<FinalObjects> {
        let mut objects = std::mem::take(&mut self.final_objects);
        if !objects.is_present() {
            objects = self.attempt.follow.final_objects().await?;
        }
        for wait in RESULT_RETRY_DELAYS.iter().filter(|_| must_have_result) {
            if objects.is_present() {
                break;
            }
            tokio::time::sleep(*wait).await;
            objects = self.attempt.follow.final_objects().await?;
        }
        Ok(objects)
    }

    /// Appends the executor's log to the attempt's log: in most cases it explains why the program did not start.
    async fn append_executor_log(&mut self) {
        let output = match self.attempt.client.executor.logs(&self.handle).await {
            Ok(text) => text,
            Err(error) => {
                tracing::info!(handle = self.handle.0, %error, "cannot read the executor's log");
                return;
            }
        };
        let text = end_of(output.trim());
        if text.is_empty() {
            return;
        }
        let notifier = &self.attempt.notifier;
        if let Err(error) = LogSink::append_after_end(notifier, text).await {
            notifier.note(&format!("the end of the log of {} was not stored: {error}", notifier.spec.stage));
        }
    }
}

/// Awaits the pending read; never returns without one.
async fn await_read(pending: &mut Option<PendingRead>) -> (Duration, Result<AttemptSnapshot>) {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}

/// Returns the last bytes of a text, cut at a character boundary.
fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(LOG_TAIL_BYTES);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Retries a request until it succeeds.
async fn retry_until_ok<F: Future<Output = Result<()>>>(mut request: impl FnMut() -> F) {
    let mut failures = 0;
    while let Err(error) = request().await {
        failures += 1;
        tracing::info!(failures, %error, "a request to stop an attempt failed, trying again");
        tokio::time::sleep(backoff(failures)).await;
    }
}
