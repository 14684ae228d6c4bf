//! The tokio shell around the engine: it carries out the engine's commands and tells it what happened.
//!
//! It holds the dispatch loop, the journal's writer, takeover and resume, cancellation, executors, this machine's
//! slots, logs and publication. All effects come through [`RunContext`], so a whole run can be tested with a store in
//! memory and a fake executor. No command is carried out before the journal batch with its event is acknowledged.
#![warn(missing_docs)]

pub mod cancel;
mod carrier;
pub mod chunks;
mod computing;
mod context;
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
