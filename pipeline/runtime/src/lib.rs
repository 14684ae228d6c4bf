//! The tokio shell around the engine: it does what the engine commands and tells it what happened.
//!
//! What: the dispatch loop, the journal writer, takeover and resume, cancellation, executors, machine slots, logs and curves,
//! publication. Why so: the engine decides and is pure; everything here is effects, injected through [`World`], so that the
//! whole run is testable against a memory store and a fake executor. Refuses: deciding what happens next; stage code; sending
//! a command before the journal batch that holds its event is acknowledged.

pub mod cancel;
mod dispatch;
pub mod executors;
pub mod forecast;
mod journal;
mod launch;
mod logs;
mod lookup;
mod options;
mod patience;
mod publish;
pub mod resume;
mod run;
pub mod slots;
mod world;

pub use forecast::forecast;
pub use options::{Ending, Interrupt, RunOptions, RunSummary};
pub use run::run;
pub use world::{InProcess, Observer, RowReader, Silent, World};

#[cfg(test)]
mod tests;
