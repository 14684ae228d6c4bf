//! Tokio shell around the engine: executes the engine's commands and feeds it their results.
//!
//! Contains the dispatch loop, the journal's writer, takeover and resume, cancellation, executors, this machine's
//! slots, logs and publication. All effects go through [`RunContext`], so a whole run can be tested with an in-memory
//! store and a fake executor. No command is executed before the journal batch with its event is acknowledged.

pub mod cancel;
mod carrier;
pub mod chunks;
mod computing;
mod context;
mod control;
pub mod curves;
mod dispatch;
pub mod executors;
mod follow;
pub mod forecast;
mod journal;
mod launch;
pub mod lease;
mod logs;
mod lookup;
mod news;
mod options;
mod patience;
mod places;
mod process;
mod publish;
mod questions;
pub mod resume;
mod run;
mod signals;
pub mod slots;
mod steady;
pub mod summary;
mod totals;

pub use context::{InProcess, Observer, OpenedRun, RowReader, RunContext, Silent};
pub use forecast::forecast;
pub use options::{Ending, Interrupt, RunOptions, RunSummary};
pub use run::run;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
