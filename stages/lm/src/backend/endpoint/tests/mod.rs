//! The endpoint in front of servers that compute with the reference, in three dialects.

mod faults;
mod kit;
mod real;
mod semantics;
mod weights;

use super::dialect::Server;
use super::served::Started;
use crate::backend::conformance;
use kit::Fronted;

/// Runs the suite of all backends over servers that draw as the reference does. Real servers have a different random
/// generator.
pub fn conforms() {
    for server in [Server::Vllm, Server::Sglang, Server::LlamaCpp] {
        let started = Started { processed: true, keys: conformance::draws(), ..Started::default() };
        conformance::suite(&Fronted::new(server, started));
    }
}
