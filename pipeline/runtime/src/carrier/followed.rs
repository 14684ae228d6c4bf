//! Follows an attempt that has no pipe to this process: in the store, and by what its executor says.

use super::carried::{Carried, Heard, rises, waits_for_a_machine};
use super::conclusion::conclude;
use super::deadlines::{Deadlines, Due};
use crate::executors::{Control, Ended, Handle, State};
use crate::follow::{Found, Left};
use crate::logs::Sink;
use crate::patience::growing;
use std::time::Duration;
use tokio::task::JoinSet;
use trainyard_core::attempt::{AttemptMessage, CancelRequest, Heartbeat};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};
use trainyard_engine::Finished;

/// Time between two looks at the store.
const LOOK: Duration = Duration::from_secs(5);
/// Time between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);
/// Waits for the result of an attempt that ended well as its executor says: a network file system may show it late.
const LATE: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];
/// Time for the last request to kill an attempt that has left its result.
const LAST_REQUEST: Duration = Duration::from_secs(60);
/// Bytes of what an executor kept that go into the attempt's log: its end.
const KEPT: usize = 64 * 1024;

/// What was passed on of the attempt's heartbeats.
#[derive(Default)]
struct Told {
    progress: Option<AttemptMessage>,
    checkpoint: Option<u64>,
}

/// One look, and when it was begun.
type Look = std::pin::Pin<Box<dyn Future<Output = (Duration, Result<Found>)> + Send>>;

/// Follows an attempt to its end.
pub(super) async fn follow(mut attempt: Carried, handle: Handle, mut states: Heard) -> Finished {
    let mut deadlines = Deadlines::new(attempt.now(), attempt.task.timeout);
    let (mut told, mut left, mut level) = (Told::default(), Left::default(), Control::Run);
    let (mut look, mut next_look): (Option<Look>, _) = (None, attempt.now());
    // Requests that are repeated until they succeed, or the attempt is over.
    let mut requests = JoinSet::new();
    let ended = loop {
        let now = attempt.now();
        let state = states.borrow_and_update().clone();
        match state {
            Some(State::Ended(ended)) => break Some(ended),
            Some(state) => {
                deadlines.state(now, &state);
                attempt.note_waiting(&state);
            }
            None => {}
        }
        attempt.tell_waiting();
        if attempt.carry_out(&mut deadlines, &handle, &mut requests) {
            break None;
        }
        if look.is_none() && now >= next_look {
            next_look = now + LOOK;
            look = Some(attempt.look(now, deadlines.last_beat()));
        }
        tokio::select! {
            changed = states.changed() => if changed.is_err() {
                break Some(Ended::with(AttemptOutcome::Failed, Error::bug("nobody drives this pool any more")));
            },
            () = rises(&mut attempt.control, level) => {
                level = *attempt.control.borrow();
                deadlines.wanted(attempt.now(), level);
            }
            (asked, found) = pending(&mut look) => {
                look = None;
                let now = attempt.now();
                match found {
                    Ok(found) => {
                        deadlines.beats(asked, now, found.heartbeat.as_ref().map(|heartbeat| heartbeat.beat));
                        attempt.pass_on(found.heartbeat, &mut told);
                        if found.left.is_something() {
                            deadlines.has_left(now);
                            left = found.left;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a look at the attempt failed");
                        deadlines.saw_nothing(now);
                    }
                }
            }
            () = tokio::time::sleep(TICK) => {}
        }
    };
    drop(requests);
    let why = deadlines.why();
    if ended.is_none() {
        attempt.kill_in_the_background(handle.clone());
    }
    if !left.is_something() {
        let well = ended.as_ref().is_some_and(|ended| ended.error.is_none() && ended.result.is_none());
        left = match attempt.what_is_left(well && why.is_none()).await {
            Ok(left) => left,
            Err(error) => {
                return Finished::failed(AttemptOutcome::Failed, error.at("reading the attempt's result"));
            }
        };
    }
    left.result = left.result.or_else(|| ended.as_ref().and_then(|ended| ended.result.as_deref().cloned()));
    if left.result.is_none() {
        let last = attempt.follow.last_heartbeat().await;
        attempt.pass_on(last, &mut told);
    }
    if !left.is_something() {
        attempt.keep_the_log(&handle).await;
    }
    conclude(left, why, ended, attempt.task.timeout)
}

/// The look that is under way; never returns without one.
async fn pending(look: &mut Option<Look>) -> (Duration, Result<Found>) {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

impl Carried {
    fn note_waiting(&mut self, state: &State) {
        match state {
            State::Pending { why } => self.waiting.because(why.clone().unwrap_or_else(waits_for_a_machine)),
            State::Started | State::Ended(_) => self.waiting.over(),
        }
    }

    fn look(&self, asked: Duration, beat: Option<u64>) -> Look {
        let follow = self.follow.clone();
        Box::pin(async move { (asked, follow.look(beat).await) })
    }

    /// Passes on what is new in a heartbeat.
    fn pass_on(&self, heartbeat: Option<Heartbeat>, told: &mut Told) {
        let Some(heartbeat) = heartbeat else { return };
        if let Some(step) = heartbeat.checkpoint.filter(|step| told.checkpoint.is_none_or(|before| *step > before)) {
            told.checkpoint = Some(step);
            self.news.pass_on(&AttemptMessage::Checkpoint { step });
        }
        if heartbeat.progress.is_some() && heartbeat.progress != told.progress {
            told.progress = heartbeat.progress;
            told.progress.iter().for_each(|progress| self.news.pass_on(progress));
        }
    }

    /// Sends what is due on its way. Returns whether the executor's word is waited for no longer.
    fn carry_out(&self, deadlines: &mut Deadlines, handle: &Handle, requests: &mut JoinSet<()>) -> bool {
        while let Some(due) = deadlines.due(self.now()) {
            if due == Due::GiveUp {
                return true;
            }
            self.request(due, handle, requests);
        }
        false
    }

    /// Sends a request on its way.
    fn request(&self, due: Due, handle: &Handle, requests: &mut JoinSet<()>) {
        match due {
            Due::Request { timed_out } => {
                let (store, spec) = (self.task.store.clone(), self.task.spec.clone());
                requests.spawn(until_taken(move || {
                    let (store, spec) = (store.clone(), spec.clone());
                    async move { store.request_cancel(&spec, CancelRequest { format: 1, timed_out }).await }
                }));
            }
            Due::Stop(control) => {
                let (executor, handle) = (self.carrier.executor.clone(), handle.clone());
                requests.spawn(until_taken(move || {
                    let (executor, handle) = (executor.clone(), handle.clone());
                    async move { executor.cancel(&handle, control).await }
                }));
            }
            Due::GiveUp => {}
        }
    }

    /// The attempt is concluded, and its executor has not said that it is over.
    fn kill_in_the_background(&self, handle: Handle) {
        let executor = self.carrier.executor.clone();
        tokio::spawn(tokio::time::timeout(LAST_REQUEST, async move {
            if let Err(error) = executor.cancel(&handle, Control::Kill).await {
                tracing::info!(handle = handle.0, %error, "an attempt was not stopped");
            }
        }));
    }

    /// What the attempt left. If it should have left something, it is looked for a little longer.
    async fn what_is_left(&self, should: bool) -> Result<Left> {
        let mut left = self.follow.left().await?;
        for wait in LATE.iter().filter(|_| should) {
            if left.is_something() {
                break;
            }
            tokio::time::sleep(*wait).await;
            left = self.follow.left().await?;
        }
        Ok(left)
    }

    /// Puts what the executor kept behind the attempt's own log: mostly why its program did not start.
    async fn keep_the_log(&self, handle: &Handle) {
        let kept = match self.carrier.executor.logs(handle).await {
            Ok(text) => text,
            Err(error) => {
                tracing::info!(handle = handle.0, %error, "the executor's log cannot be read");
                return;
            }
        };
        let text = end_of(kept.trim());
        if text.is_empty() {
            return;
        }
        if let Err(error) = Sink::append_behind(&self.news, text).await {
            let stage = &self.task.spec.stage;
            self.news.note(&format!("the end of the log of {stage} was not stored: {error}"));
        }
    }
}

/// The last bytes of a text, cut at a character.
fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(KEPT);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

/// Repeats a request until it succeeds.
async fn until_taken<F: Future<Output = Result<()>>>(mut ask: impl FnMut() -> F) {
    let mut failures = 0;
    while let Err(error) = ask().await {
        failures += 1;
        tracing::info!(failures, %error, "a request to stop an attempt failed, trying again");
        tokio::time::sleep(growing(failures)).await;
    }
}
