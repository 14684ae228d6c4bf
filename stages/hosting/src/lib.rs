//! A model behind the server: prompts by its template, continuous batching over a sampler, answers read as they come.
//!
//! ```text
//! Asked ─prompt─▶ tokens ─queue─▶ worker: one thread, all sequences ─turn─▶ Answered
//! ```
//!
//! The thread of the worker owns the sampler. A request waits until there is room for all its answers; a sequence whose
//! client has gone is taken out.
#![warn(missing_docs)]

mod calls;
mod host;
mod job;
mod pieces;
mod prompt;
mod stops;
#[cfg(test)]
mod tests;
mod turn;
mod worker;

pub use host::{Host, HostOptions};
