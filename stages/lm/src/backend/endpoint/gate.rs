//! The weights that a server has, and admission of requests while they change.
//!
//! A server that loads weights in the middle of a turn mixes two versions in one sequence without reporting it. New
//! weights therefore wait until no request is in flight, and requests wait until they are loaded. All samplers of a
//! stage share one gate, since they share one server.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use trainyard_core::Result;

/// Weights that the server has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Version of the weights; 0 for the initial ones.
    pub version: u32,
    /// Adapter that holds the weights, if they are an adapter's.
    pub adapter: Option<String>,
    /// Whether this stage has loaded them.
    pub ours: bool,
}

#[derive(Default)]
struct State {
    loaded: Loaded,
    flying: usize,
    changing: bool,
}

/// The gate in front of one server.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// A request in flight; the weights stay unchanged until it is dropped.
pub struct Lease {
    gate: Arc<Gate>,
    /// Weights of the server during the lease.
    pub loaded: Loaded,
}

impl Gate {
    /// Admits a request, unless weights are changing.
    pub fn enter(self: &Arc<Self>) -> Option<Lease> {
        let mut state = self.lock();
        (!state.changing).then(|| {
            state.flying += 1;
            Lease { gate: self.clone(), loaded: state.loaded.clone() }
        })
    }
    /// Admits a request as soon as no weights are changing.
    pub fn wait_to_enter(self: &Arc<Self>) -> Lease {
        let mut state = self.lock();
        while state.changing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.flying += 1;
        Lease { gate: self.clone(), loaded: state.loaded.clone() }
    }
    /// Changes the weights while no request is in flight. `change` gets the loaded weights and returns the new ones.
    pub fn change(&self, change: impl FnOnce(&Loaded) -> Result<Loaded>) -> Result<()> {
        let mut state = self.lock();
        while state.changing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.changing = true;
        while state.flying > 0 {
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
            Err(e) => (Loaded { ours: false, ..before }, Err(e)),
        };
        state.loaded = loaded;
        self.changed.notify_all();
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.gate.lock().flying -= 1;
        self.gate.changed.notify_all();
    }
}
