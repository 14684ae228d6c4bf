//! Checks the conformance of backends: [`suite`] runs all checks, and each panics with a description of the failure.
//!
//! Numbers are compared with tolerances that a float32 device meets. Resumed state is compared bit for bit, and so are
//! sequences that share a batch if the backend guarantees equal bits ([`Backend::is_batch_invariant`]).

mod adapters;
mod agreement;
mod basics;
mod constraints;
mod kit;
mod variants;

pub use kit::{draws, model};

use super::Backend;

/// Runs all checks that the backend's features allow ([`Backend::features`]), on small random models: first checks of
/// the backend alone, then comparisons with the reference.
pub fn suite(backend: &dyn Backend) {
    basics::suite(backend);
    constraints::suite(backend);
    if backend.features().trains {
        adapters::suite(backend);
    }
    agreement::suite(backend);
}
