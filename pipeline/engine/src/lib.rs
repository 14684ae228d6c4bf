//! Engine: a synchronous state machine that decides the next actions of a run.
//!
//! [`Engine::step`] takes the time and one event ([`Input`]) and returns the events to journal and the commands to
//! carry out ([`Step`]). The engine reads no clock and touches no disk, so tests can try any order of inputs, which is
//! where runs go wrong.
//!
//! The caller must carry out a command only after the events of its step are durable in the journal.

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
