//! Runs the conformance suite on all backends of this build, and on `endpoint` with servers that compute with the
//! reference, in three dialects.

mod faults;
mod kit;
mod real;
mod semantics;
mod weights;

use kit::MockServerBackend;
use serde_json::json;
use trainyard_api::PartOptions as _;
use trainyard_core::Secrets;
use trainyard_lm::backend::endpoint::{Endpoint, InferenceServerKind};
use trainyard_lm::backend::{conformance, registry};
use trainyard_testkit_lm::MockServerOptions;

/// Runs the suite over servers that draw as the reference does. Real servers have a different random generator.
fn endpoint_conforms() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang, InferenceServerKind::LlamaCpp] {
        let started = MockServerOptions { processed: true, keys: conformance::draws(), ..MockServerOptions::default() };
        conformance::suite(&MockServerBackend::new(server, started));
    }
}

/// Covers the local backends, and `endpoint` in front of a server that computes with the reference.
#[test]
fn every_backend_conforms() {
    let family = registry::family();
    for kind in family.names() {
        if kind == Endpoint::KIND {
            endpoint_conforms();
        } else {
            conformance::suite(&*family.build(&json!({ "kind": kind }), &Secrets::default()).unwrap());
        }
    }
}
