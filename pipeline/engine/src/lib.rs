//! Implements the engine: a synchronous state machine that decides the next actions of a run.
//!
//! [`RunEngine::step`] takes the time and one event ([`Input`]) and returns the events to journal and the commands to
//! carry out ([`EngineStep`]). The engine reads no clock and touches no disk, so tests can try any order of inputs,
//! which is where runs go wrong.
//!
//! The caller must carry out a command only after the events of its step are durable in the journal.

mod admission;
mod allocator;
mod assemble;
pub mod checks;
mod condition;
mod config;
pub mod digest;
mod ending;
mod engine;
mod expand;
pub mod fold;
pub mod forecast;
mod group;
mod io;
mod lookup;
mod node;
mod other_runs;
pub mod pool;
mod prepare;
mod queue;
mod recompute;
mod scope;
mod selection;
mod setup;
#[cfg(test)]
mod tests;

pub use engine::RunEngine;
pub use forecast::{Forecast, ForecastDecision, forecast};
pub use io::{AttemptCompletion, Command, EngineStep, Input, LookupResult, NodeId, Publication};
pub use pool::{ExternalUsage, Gpu, Grant, MachinePool, MachineShare, PoolMachine};
pub use setup::{EngineSetup, LastAttempt, OpenAttempt, ResumeState};
