//! Runs the engine on tokio: executes the engine's commands and feeds their results back to it.
//!
//! The crate contains the dispatch loop, the journal's writer, takeover and resume, cancellation, executors, this
//! machine's slots, logs and publication. Every effect uses a dependency in [`RunContext`], so tests can execute
//! complete runs with an in-memory store and a fake executor. Launches, recoveries, publications and the end of a run
//! are executed only after the store has acknowledged the journal batch with their events; reads of the store and stops
//! are executed at once.

mod attempt_reader;
mod attempts;
pub mod cancel;
pub mod chunks;
mod context;
mod control;
pub mod curves;
mod dispatcher;
pub mod executors;
pub mod forecast;
mod in_process;
mod journal;
mod launch;
pub mod lease;
mod logs;
mod lookup;
mod notifier;
mod options;
mod process;
pub mod progress;
mod publish;
mod query_queue;
mod queue_reminder;
pub mod resume;
mod retry;
mod run;
mod signals;
pub mod slots;
mod stage_claims;
mod steady_clock;
pub mod summary;
mod totals;

pub use context::{InProcessRunner, NoopObserver, Observer, OpenedRun, OutputRowReader, RunContext};
pub use forecast::forecast;
pub use options::{Interrupt, RunEnding, RunOptions, RunSummary};
pub use run::run;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
