//! One attempt of one stage: `trainyard attempt <store-url>#<attempt-folder>`.
//!
//! `spec.json` → inputs and sources fetched into scratch → the stage, which sees local folders only → outputs hashed,
//! summarized and stored as objects → `result.json`, create-only. The engine publishes. Messages of the attempt go
//! through pipes where its executor holds them (`supervision`), and into the store everywhere else (`detached`), where
//! the attempt needs only its URL. The commands of `run:` stages do not need a process each: where they end with their
//! engine, one `host` runs them all.

mod checkpoints;
mod child;
mod command;
mod detached;
mod files;
mod folders;
mod guard;
mod heartbeat;
mod host;
mod inputs;
mod member;
mod memory;
mod nodes;
mod outputs;
mod pipes;
mod process_tree;
mod redaction;
mod rendezvous;
mod reporter;
mod request_reader;
mod requests;
mod runner;
pub(crate) mod secrets;
mod setup;
mod sources;
mod stop;
mod supervision;
#[cfg(test)]
mod tests;
mod thread_pool;
mod uploads;

pub use checkpoints::NoCheckpoints;
pub use inputs::materialize;
pub use outputs::store as store_outputs;
pub use requests::StoredRequests;
pub use runner::{context, panic_text};
pub use sources::guard_sources;
pub use uploads::UploadPaths;

use crate::catalogue::Catalogue;
use trainyard_core::Result;
use trainyard_runtime::executors;

/// Runs the attempt named by the URL. The error, if any, was already reported: on stdout to an executor that holds the
/// pipes, else in the attempt's folder and on stderr.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    if guard::is_guard(url) {
        guard::main()
    } else if executors::is_host(url) {
        host::main(url, catalogue)
    } else if rendezvous::rank(url) > 0 {
        member::main(url, catalogue)
    } else if supervision::is_supervised(url) {
        supervision::main(url, catalogue)
    } else {
        detached::main(url, catalogue)
    }
}
