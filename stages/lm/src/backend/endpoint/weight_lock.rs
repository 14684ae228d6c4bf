//! Tracks the weights that a server has loaded and admits requests only while they do not change.
//!
//! A server that loads weights in the middle of a turn mixes two versions in one sequence without reporting it. New
//! weights therefore wait until no request is in flight, and requests wait until the new weights are loaded. All
//! samplers of a stage share one lock, since they share one server.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use trainyard_core::Result;

/// Weights that the server has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadedWeights {
    /// Version of the weights; 0 for the initial ones.
    pub version: u32,
    /// Adapter that holds the weights, if they are an adapter's.
    pub adapter: Option<String>,
    /// Whether this stage has loaded the weights.
    pub from_stage: bool,
}

#[derive(Default)]
struct WeightLockState {
    loaded: LoadedWeights,
    in_flight: usize,
    changing: bool,
}

/// Lock of one server's weights: requests are readers, an update is a writer.
#[derive(Default)]
pub struct WeightLock {
    state: Mutex<WeightLockState>,
    changed: Condvar,
}

/// A request in flight; the weights stay unchanged until it is dropped.
pub struct WeightReadPermit {
    weight_lock: Arc<WeightLock>,
    /// Weights of the server while the permit is held.
    pub loaded: LoadedWeights,
}

impl WeightLock {
    /// Admits a request, or returns `None` while weights are changing.
    pub fn try_acquire(self: &Arc<Self>) -> Option<WeightReadPermit> {
        let mut state = self.lock();
        (!state.changing).then(|| {
            state.in_flight += 1;
            WeightReadPermit { weight_lock: self.clone(), loaded: state.loaded.clone() }
        })
    }
    /// Waits until no weights are changing and admits a request.
    pub fn acquire(self: &Arc<Self>) -> WeightReadPermit {
        let mut state = self.lock();
        while state.changing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight += 1;
        WeightReadPermit { weight_lock: self.clone(), loaded: state.loaded.clone() }
    }
    /// Waits until no request is in flight and calls `change` with the loaded weights; `change` returns the new ones.
    /// Requests wait until `change` has returned. Errors: those of `change`.
    pub fn update(&self, change: impl FnOnce(&LoadedWeights) -> Result<LoadedWeights>) -> Result<()> {
        let mut state = self.lock();
        while state.changing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.changing = true;
        while state.in_flight > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let before = state.loaded.clone();
        drop(state);
        let outcome = change(&before);
        let mut state = self.lock();
        state.changing = false;
        // After a failure the loaded weights are unknown.
        let (loaded, outcome) = match outcome {
            Ok(loaded) => (loaded, Ok(())),
            Err(e) => (LoadedWeights { from_stage: false, ..before }, Err(e)),
        };
        state.loaded = loaded;
        self.changed.notify_all();
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, WeightLockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WeightReadPermit {
    fn drop(&mut self) {
        self.weight_lock.lock().in_flight -= 1;
        self.weight_lock.changed.notify_all();
    }
}
