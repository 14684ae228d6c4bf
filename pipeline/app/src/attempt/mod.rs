//! Runs one attempt of one stage: the command `trainyard attempt <store-url>#<attempt-folder>`.
//!
//! The command reads `spec.json` from the attempt's folder and fetches the inputs and sources to a scratch folder. Then
//! it runs the stage, which reads and writes local folders only. Finally it hashes and summarizes the outputs, stores
//! them as objects, and creates `result.json`, which exists at most once. The engine publishes the result
//! (`docs/design/0004-storage-and-resume.md`).
//!
//! An executor starts attempts in one of three ways:
//!
//! - `supervision`: the executor holds the pipes of the attempt, which reports through stdout and ends when its stdin
//!   closes.
//! - `detached`: the attempt reports through its folder in the store and needs only its URL. It may outlive its engine.
//!   It makes its own `mark` for what it starts. A `guard` process kills its commands if the attempt itself is killed.
//!   In a multi-node attempt, every further node runs a `member`.
//! - `host`: one process runs the `run:` stages of many attempts, because a process for each would take longer than a
//!   small command. It ends with its engine.

mod checkpoint_line;
mod checkpoints;
mod child;
mod command;
mod command_checkpoints;
mod detached;
mod files;
mod folders;
mod guard;
mod heartbeat;
mod host;
mod inputs;
mod mark;
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
mod secret_forms;
pub(crate) mod secrets;
mod setup;
mod sources;
mod stop;
mod store_wait;
mod supervision;
#[cfg(test)]
mod tests;
mod thread_pool;
mod uploads;

pub use checkpoints::NoCheckpoints;
pub use inputs::materialize;
pub use outputs::store as store_outputs;
pub use requests::StoredRequests;
pub use runner::context;
pub use sources::guard_sources;
pub use uploads::UploadPaths;

use crate::catalogue::Catalogue;
use trainyard_core::Result;
use trainyard_runtime::executors;

/// Runs the process that the URL and the environment select. If it fails, it has already reported the error: on stdout
/// to an executor that holds the pipes, else on stderr and in the attempt's folder.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    if guard::is_guard(url) {
        guard::main()
    } else if executors::is_host(url) {
        host::main(url, catalogue)
    } else if rendezvous::rank(url) > 0 {
        member::main(url, &mark::take(url), catalogue)
    } else if supervision::is_supervised(url) {
        supervision::main(url, catalogue)
    } else {
        detached::main(url, &mark::take(url), catalogue)
    }
}
