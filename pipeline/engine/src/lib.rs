//! The engine: a synchronous state machine that decides what a run does next.
//!
//! [`Engine::step`] takes the time and one thing that happened ([`Input`]) and returns the events to journal and the
//! commands to carry out ([`Step`]). It reads no clock and touches no disk, so tests can try any order of inputs, and
//! the order of inputs is what goes wrong in a run.
//!
//! The caller must carry out a command only after the events of its step are durable in the journal.
#![warn(missing_docs)]

mod admission;
mod assemble;
pub mod checks;
mod condition;
mod config;
pub mod digest;
mod elsewhere;
mod ending;
mod engine;
mod expand;
pub mod fold;
pub mod forecast;
mod group;
mod heal;
mod io;
mod ledger;
mod lookup;
mod node;
pub mod pool;
mod prepare;
mod queue;
mod scope;
mod selection;
mod setup;
#[cfg(test)]
mod tests;

pub use engine::Engine;
pub use forecast::{Decision, Forecast, forecast};
pub use io::{Command, Finished, Input, Looked, NodeId, Publication, Step};
pub use pool::{Gpu, Grant, Machine, MachinePool, Outside, Share};
pub use setup::{LastAttempt, OpenAttempt, Resumed, Setup};
