//! What every backend must do. [`suite`] runs all checks; each panics with what is wrong.
//!
//! Numbers are compared with tolerances that a float32 device keeps. Resumed state is compared bit for bit, and so are
//! sequences that share a batch where the backend promises it ([`Backend::is_batch_invariant`]).

mod adapters;
mod agreement;
mod basics;
mod kit;
mod variants;

pub use kit::{draws, model};

use super::Backend;

/// All checks of what the backend offers ([`Backend::offers`]), on small random models: the backend by itself, then
/// against the reference.
pub fn suite(backend: &dyn Backend) {
    basics::suite(backend);
    if backend.offers().trains {
        adapters::suite(backend);
    }
    agreement::suite(backend);
}
