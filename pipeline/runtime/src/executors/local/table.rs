//! Attempts that one executor carries in this process: their states, and how to stop each.

use super::super::{Control, Ended, Handle, State};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// States by handle. Dropping the table ends the tasks that carry the attempts.
#[derive(Default)]
pub(super) struct Table {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Shared {
    entries: Mutex<HashMap<Handle, Entry>>,
    changed: Notify,
}

struct Entry {
    state: State,
    control: watch::Sender<Control>,
}

/// Reporter of one attempt's state, for the task that carries it.
pub(super) struct Line {
    shared: Arc<Shared>,
    handle: Handle,
}

impl Table {
    /// Returns whether the attempt is carried here, or its end was not reported yet.
    pub fn has(&self, handle: &Handle) -> bool {
        self.shared.entries().contains_key(handle)
    }
    /// Carries an attempt to its end in a separate task.
    pub fn carry<F: Future<Output = Ended> + Send + 'static>(
        &self,
        handle: Handle,
        carry: impl FnOnce(Line, watch::Receiver<Control>) -> F,
    ) {
        let (control, controls) = watch::channel(Control::Run);
        self.shared.entries().insert(handle.clone(), Entry { state: State::Started, control });
        let end = Line { shared: self.shared.clone(), handle: handle.clone() };
        let carried = carry(Line { shared: self.shared.clone(), handle }, controls);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(async move {
            let ended = carried.await;
            end.is(State::Ended(ended));
        });
        // Reap finished tasks, so that a long run does not accumulate them.
        while tasks.try_join_next().is_some() {}
    }
    /// Returns the states, in order. The end of an attempt is returned once; then the attempt is forgotten.
    pub fn states(&self, handles: &[Handle]) -> Vec<State> {
        let mut entries = self.shared.entries();
        let mut state = |handle: &Handle| match entries.get(handle).map(|entry| &entry.state) {
            Some(State::Ended(_)) => entries.remove(handle).map_or_else(unknown, |entry| entry.state),
            Some(state) => state.clone(),
            None => unknown(),
        };
        handles.iter().map(&mut state).collect()
    }
    /// Forwards a control of the engine; it never decreases.
    pub fn control(&self, handle: &Handle, wanted: Control) {
        if let Some(entry) = self.shared.entries().get(handle) {
            entry.control.send_if_modified(|now| {
                let rises = wanted > *now;
                *now = wanted.max(*now);
                rises
            });
        }
    }
    /// Returns when a state has changed since the last return.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }
}

impl Line {
    /// Sets the state of the attempt.
    pub fn is(&self, state: State) {
        let mut entries = self.shared.entries();
        if let Some(entry) = entries.get_mut(&self.handle).filter(|entry| entry.state != state) {
            entry.state = state;
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, HashMap<Handle, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> State {
    State::Ended(Ended::with(AttemptOutcome::Lost, Error::lost("nothing is left of the attempt on this machine")))
}
