//! The engine: a synchronous state machine that decides what a run does next.
//!
//! What: [`Engine::step`] takes the time and one thing that happened ([`Input`]) and gives the events to journal and the
//! commands to carry out ([`Step`]). Readiness by per-node counters, cache decisions by stage digest, late conditions and
//! fan-outs, retries, admission to pools, checks. Why so: everything that can go wrong in a run goes wrong in the order of
//! happenings, so the order is an argument here, and tests permute it. Refuses: clocks, disks, threads, stage code.
//!
//! The caller keeps one rule: a command is carried out only after the step's events are durable in the journal.

mod admission;
pub mod checks;
mod condition;
mod config;
pub mod digest;
mod ending;
mod engine;
mod expand;
pub mod fold;
pub mod forecast;
mod io;
mod ledger;
mod lookup;
mod node;
pub mod pool;
mod prepare;
mod queue;
mod scope;
mod setup;
#[cfg(test)]
mod tests;

pub use engine::Engine;
pub use forecast::{Forecast, Verdict, forecast};
pub use io::{Command, Finished, Input, Looked, NodeId, Publication, Step};
pub use pool::{Gpu, Grant, Machine, Outside, Pool, Share};
pub use setup::{LastAttempt, Resumed, Setup};
