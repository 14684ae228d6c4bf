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
mod crew;
mod detached;
mod files;
mod folders;
mod guard;
mod heartbeat;
mod host;
mod inputs;
mod leftovers;
mod member;
mod memory;
mod nodes;
mod opening;
mod orders;
mod outputs;
mod peers;
mod pipes;
mod redaction;
mod reporter;
mod requests;
pub(crate) mod secrets;
mod sources;
mod stop;
mod supervision;
#[cfg(test)]
mod tests;
mod uploads;
mod work;

pub use checkpoints::NoCheckpoints;
pub use inputs::materialize;
pub use outputs::store as store_outputs;
pub use requests::StoredRequests;
pub use sources::guard_sources;
pub use uploads::Places;
pub use work::{context, panic_text};

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
    } else if peers::rank(url) > 0 {
        member::main(url, catalogue)
    } else if supervision::is_supervised(url) {
        supervision::main(url, catalogue)
    } else {
        detached::main(url, catalogue)
    }
}
