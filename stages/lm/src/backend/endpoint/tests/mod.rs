//! The endpoint in front of servers that compute with the reference, in three dialects.

mod faults;
mod kit;
mod real;
mod semantics;
mod weights;

use super::dialect::InferenceServerKind;
use super::mock_server::MockServerOptions;
use crate::backend::conformance;
use kit::MockServerBackend;

/// Runs the suite of all backends over servers that draw as the reference does. Real servers have a different random
/// generator.
pub fn conforms() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang, InferenceServerKind::LlamaCpp] {
        let started = MockServerOptions { processed: true, keys: conformance::draws(), ..MockServerOptions::default() };
        conformance::suite(&MockServerBackend::new(server, started));
    }
}
