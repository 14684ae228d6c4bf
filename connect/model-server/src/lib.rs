//! A served model: prompts by its template, continuous batching over a sampler, answers parsed incrementally.
//!
//! ```text
//! Asked ─prompt─▶ tokens ─queue─▶ worker: one thread, all sequences ─turn─▶ Answered
//! ```
//!
//! The worker thread owns the sampler. A request waits until there is room for all its answers; a sequence whose client
//! has disconnected is removed.
mod calls;
mod choice_decoder;
mod job;
mod prompt;
mod server;
mod stop_matcher;
#[cfg(test)]
mod tests;
mod token_decoder;
mod worker;

pub use server::{ModelServer, ModelServerOptions};
