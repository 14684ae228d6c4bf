//! Holds the states of the attempts that one executor runs in this process, and the means to stop each of them.

use super::super::{AttemptExit, AttemptState, Control, Handle};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// States by handle. Dropping the table aborts the tasks of the attempts.
#[derive(Default)]
pub(super) struct AttemptTable {
    shared: Arc<AttemptTableShared>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct AttemptTableShared {
    entries: Mutex<HashMap<Handle, AttemptEntry>>,
    changed: Notify,
}

struct AttemptEntry {
    state: AttemptState,
    control: watch::Sender<Control>,
}

/// Reporter of one attempt's state, for the attempt's task.
pub(super) struct StateReporter {
    shared: Arc<AttemptTableShared>,
    handle: Handle,
}

impl AttemptTable {
    /// Returns whether the attempt runs here, or its end was not returned by [`AttemptTable::states`] yet.
    pub fn has(&self, handle: &Handle) -> bool {
        self.shared.entries().contains_key(handle)
    }
    /// Runs an attempt in a separate task, with the state `Started` at first.
    pub fn spawn<F: Future<Output = AttemptExit> + Send + 'static>(
        &self,
        handle: Handle,
        run: impl FnOnce(StateReporter, watch::Receiver<Control>) -> F,
    ) {
        let (control, controls) = watch::channel(Control::Run);
        self.shared.entries().insert(handle.clone(), AttemptEntry { state: AttemptState::Started, control });
        let end = StateReporter { shared: self.shared.clone(), handle: handle.clone() };
        let attempt = run(StateReporter { shared: self.shared.clone(), handle }, controls);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(async move {
            let ended = attempt.await;
            end.set_state(AttemptState::Ended(ended));
        });
        // Reap finished tasks, so that a long run does not accumulate them.
        while tasks.try_join_next().is_some() {}
    }
    /// Returns the states in the order of `handles`. Returns the end of an attempt once and then forgets the attempt;
    /// an unknown attempt is lost.
    pub fn states(&self, handles: &[Handle]) -> Vec<AttemptState> {
        let mut entries = self.shared.entries();
        let mut state = |handle: &Handle| match entries.get(handle).map(|entry| &entry.state) {
            Some(AttemptState::Ended(_)) => entries.remove(handle).map_or_else(unknown, |entry| entry.state),
            Some(state) => state.clone(),
            None => unknown(),
        };
        handles.iter().map(&mut state).collect()
    }
    /// Forwards a control of the engine; it never decreases.
    pub fn control(&self, handle: &Handle, requested: Control) {
        if let Some(entry) = self.shared.entries().get(handle) {
            entry.control.send_if_modified(|current| {
                let changed = requested > *current;
                *current = requested.max(*current);
                changed
            });
        }
    }
    /// Waits until a state has changed since the last call returned.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }
}

impl StateReporter {
    /// Sets the state of the attempt.
    pub fn set_state(&self, state: AttemptState) {
        let mut entries = self.shared.entries();
        if let Some(entry) = entries.get_mut(&self.handle).filter(|entry| entry.state != state) {
            entry.state = state;
            self.shared.changed.notify_one();
        }
    }
}

impl AttemptTableShared {
    fn entries(&self) -> MutexGuard<'_, HashMap<Handle, AttemptEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> AttemptState {
    AttemptState::Ended(AttemptExit::with_error(
        AttemptOutcome::Lost,
        Error::lost("nothing is left of the attempt on this machine"),
    ))
}
