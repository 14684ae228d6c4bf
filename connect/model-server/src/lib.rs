//! A served model: prompts by its template, continuous batching over a sampler, responses parsed incrementally.
//!
//! ```text
//! ModelRequest ─prompt─▶ tokens ─queue─▶ SamplingWorker: one thread, all sequences ─decoder─▶ ModelResponse
//! ```
//!
//! The worker thread owns the sampler. A request waits until there is room for all its choices; a sequence whose client
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
