//! Follows an attempt without a pipe to this process, by its objects in the store and the states that its executor
//! reports.

use super::carried::{Carried, Heard, rises, waits_for_a_machine};
use super::conclusion::conclude;
use super::deadlines::{Deadlines, Due};
use crate::executors::{Control, Ended, Handle, State};
use crate::follow::{Found, Left};
use crate::logs::Sink;
use crate::patience::growing;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::JoinSet;
use trainyard_core::attempt::{AttemptMessage, CancelRequest, Heartbeat};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::Finished;

/// Time between two reads of the store: a local disk is cheap to read, a bucket is not. An attempt sends a heartbeat
/// every 10 s.
const LOOK_LOCAL: Duration = Duration::from_secs(5);
const LOOK_REMOTE: Duration = Duration::from_secs(10);
/// Time between two checks of the deadlines.
const TICK: Duration = Duration::from_secs(1);
/// Retry delays for the result of an attempt that succeeded according to its executor: a network file system may show
/// it late.
const LATE: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];
/// Time limit of the last request to kill an attempt that has left its result.
const LAST_REQUEST: Duration = Duration::from_secs(60);
/// Maximum number of bytes that are appended from the executor's log to the attempt's log.
const KEPT: usize = 64 * 1024;

/// Pending read, with the time at which it began.
type Look = Pin<Box<dyn Future<Output = (Duration, Result<Found>)> + Send>>;

/// Attempt that is being followed.
struct Followed {
    attempt: Carried,
    handle: Handle,
    deadlines: Deadlines,
    /// Control last requested by the engine.
    level: Control,
    /// Pending read of the store.
    look: Option<Look>,
    next_look: Duration,
    /// Objects that the attempt left, once a read has found them.
    left: Left,
    /// Progress and checkpoint that were last forwarded.
    progress: Option<AttemptMessage>,
    checkpoint: Option<u64>,
    /// Requests that are retried until they succeed, or the attempt is over.
    requests: JoinSet<()>,
}

/// Follows an attempt to its end.
pub(super) async fn follow(attempt: Carried, handle: Handle, states: Heard) -> Finished {
    let now = attempt.now();
    let mut followed = Followed {
        deadlines: Deadlines::new(now, attempt.task.timeout).waiting_at_most(attempt.wait()),
        attempt,
        handle,
        level: Control::Run,
        look: None,
        next_look: now,
        left: Left::default(),
        progress: None,
        checkpoint: None,
        requests: JoinSet::new(),
    };
    let ended = followed.until_it_ends(states).await;
    followed.conclude(ended).await
}

impl Followed {
    /// Returns the end reported by the executor, or `None` if the wait for it was given up.
    async fn until_it_ends(&mut self, mut states: Heard) -> Option<Ended> {
        loop {
            let state = states.borrow_and_update().clone();
            if let Some(State::Ended(ended)) = state {
                return Some(ended);
            }
            self.hear(state);
            if self.carry_out_what_is_due() {
                return None;
            }
            self.begin_a_look();
            tokio::select! {
                biased;
                changed = states.changed() => if changed.is_err() {
                    let error = Error::bug("nobody drives this pool any more");
                    return Some(Ended::with(AttemptOutcome::Failed, error));
                },
                () = rises(&mut self.attempt.control, self.level) => {
                    self.level = *self.attempt.control.borrow();
                    self.deadlines.wanted(self.attempt.now(), self.level);
                }
                (asked, found) = under_way(&mut self.look) => {
                    self.look = None;
                    self.see(asked, found);
                }
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Records a state reported by the executor.
    fn hear(&mut self, state: Option<State>) {
        if let Some(state) = state {
            self.deadlines.state(self.attempt.now(), &state);
            match state {
                State::Pending { why } => self.attempt.waiting.because(why.unwrap_or_else(waits_for_a_machine)),
                State::Started | State::Ended(_) => self.attempt.waiting.over(),
            }
        }
        self.attempt.tell_waiting();
    }

    fn begin_a_look(&mut self) {
        let now = self.attempt.now();
        if self.look.is_some() || now < self.next_look {
            return;
        }
        let is_local = self.attempt.task.store.local_root().is_some();
        self.next_look = now + if is_local { LOOK_LOCAL } else { LOOK_REMOTE };
        let (follow, beat) = (self.attempt.follow.clone(), self.deadlines.last_beat());
        self.look = Some(Box::pin(async move { (now, follow.look(beat).await) }));
    }

    /// Records the result of a read.
    fn see(&mut self, asked: Duration, found: Result<Found>) {
        let now = self.attempt.now();
        match found {
            Ok(Found { heartbeat, left }) => {
                self.deadlines.beats(asked, now, heartbeat.as_ref().map(|heartbeat| heartbeat.beat));
                self.pass_on(heartbeat);
                if left.is_something() {
                    self.deadlines.has_left(now);
                    self.left = left;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a look at the attempt failed");
                self.deadlines.saw_nothing(now);
            }
        }
    }

    /// Forwards progress and checkpoints that are new in a heartbeat.
    fn pass_on(&mut self, heartbeat: Option<Heartbeat>) {
        let Some(heartbeat) = heartbeat else { return };
        if let Some(step) = heartbeat.checkpoint.filter(|step| self.checkpoint.is_none_or(|before| *step > before)) {
            self.checkpoint = Some(step);
            self.attempt.news.pass_on(&AttemptMessage::Checkpoint { step });
        }
        if heartbeat.progress.is_some() && heartbeat.progress != self.progress {
            self.progress = heartbeat.progress;
            self.progress.iter().for_each(|progress| self.attempt.news.pass_on(progress));
        }
    }

    /// Starts the requests that are due. Returns whether to stop waiting for the executor.
    fn carry_out_what_is_due(&mut self) -> bool {
        while let Some(due) = self.deadlines.due(self.attempt.now()) {
            match due {
                Due::GiveUp => return true,
                Due::Request { timed_out } => {
                    let (store, spec) = (self.attempt.task.store.clone(), self.attempt.task.spec.clone());
                    self.requests.spawn(until_taken(move || {
                        let (store, spec) = (store.clone(), spec.clone());
                        async move { store.request_cancel(&spec, CancelRequest { format: 1, timed_out }).await }
                    }));
                }
                Due::Stop(control) => {
                    let (executor, handle) = (self.attempt.carrier.executor.clone(), self.handle.clone());
                    self.requests.spawn(until_taken(move || {
                        let (executor, handle) = (executor.clone(), handle.clone());
                        async move { executor.cancel(&handle, control).await }
                    }));
                }
            }
        }
        false
    }

    async fn conclude(mut self, ended: Option<Ended>) -> Finished {
        self.requests.abort_all();
        if ended.is_none() {
            self.kill_in_the_background();
        }
        let why = self.deadlines.why();
        let well = |ended: &Ended| ended.error.is_none() && ended.result.is_none();
        let should = why.is_none() && ended.as_ref().is_some_and(well);
        let mut left = match self.what_is_left(should).await {
            Ok(left) => left,
            Err(error) => {
                return Finished::failed(AttemptOutcome::Failed, error.at("reading the attempt's result"));
            }
        };
        left.result = left.result.or_else(|| ended.as_ref().and_then(|ended| ended.result.as_deref().cloned()));
        if left.result.is_none() {
            // The last heartbeat may have a later resume point than the last read.
            let last = self.attempt.follow.last_heartbeat().await;
            self.pass_on(last);
        }
        if !left.is_something() {
            // A node that is cut off keeps running its attempt, and so does one whose restarted head forgot it.
            if ended.as_ref().is_some_and(|ended| ended.outcome == AttemptOutcome::Lost) {
                self.attempt.ask_to_end().await;
            }
            self.keep_the_log().await;
        }
        conclude(left, why, ended, self.attempt.task.timeout)
    }

    /// Kills an attempt that is concluded but that its executor has not reported as over.
    fn kill_in_the_background(&self) {
        let (executor, handle) = (self.attempt.carrier.executor.clone(), self.handle.clone());
        tokio::spawn(tokio::time::timeout(LAST_REQUEST, async move {
            if let Err(error) = executor.cancel(&handle, Control::Kill).await {
                tracing::info!(handle = handle.0, %error, "an attempt was not stopped");
            }
        }));
    }

    /// Returns the objects that the attempt left. With `should`, a missing result is retried for a while.
    async fn what_is_left(&mut self, should: bool) -> Result<Left> {
        let mut left = std::mem::take(&mut self.left);
        if !left.is_something() {
            left = self.attempt.follow.left().await?;
        }
        for wait in LATE.iter().filter(|_| should) {
            if left.is_something() {
                break;
            }
            tokio::time::sleep(*wait).await;
            left = self.attempt.follow.left().await?;
        }
        Ok(left)
    }

    /// Appends the executor's log to the attempt's log: in most cases it explains why the program did not start.
    async fn keep_the_log(&mut self) {
        let kept = match self.attempt.carrier.executor.logs(&self.handle).await {
            Ok(text) => text,
            Err(error) => {
                tracing::info!(handle = self.handle.0, %error, "the executor's log cannot be read");
                return;
            }
        };
        let text = end_of(kept.trim());
        if text.is_empty() {
            return;
        }
        let news = &self.attempt.news;
        if let Err(error) = Sink::append_behind(news, text).await {
            news.note(&format!("the end of the log of {} was not stored: {error}", news.spec.stage));
        }
    }
}

/// Awaits the pending read; never returns without one.
async fn under_way(look: &mut Option<Look>) -> (Duration, Result<Found>) {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// Returns the last bytes of a text, cut at a character boundary.
fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(KEPT);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Retries a request until it succeeds.
async fn until_taken<F: Future<Output = Result<()>>>(mut ask: impl FnMut() -> F) {
    let mut failures = 0;
    while let Err(error) = ask().await {
        failures += 1;
        tracing::info!(failures, %error, "a request to stop an attempt failed, trying again");
        tokio::time::sleep(growing(failures)).await;
    }
}
