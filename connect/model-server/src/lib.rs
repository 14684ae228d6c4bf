//! Serves a model: it builds prompts by the template, samples all requests in one continuous batch, and parses the
//! responses while they are sampled.
//!
//! ```text
//! ModelRequest ─prompt─▶ tokens ─queue─▶ SamplingWorker: one thread, all sequences ─decoder─▶ ModelResponse
//! ```
//!
//! A response of a given form (`response_format`, `tool_choice`) is sampled under a constraint, which `output` builds.
//!
//! The worker thread owns the sampler. A request waits until the batch has room for all its choices. The worker removes
//! the sequences of clients that have disconnected.
mod calls;
mod choice_decoder;
mod job;
mod output;
mod prompt;
mod server;
mod stop_matcher;
#[cfg(test)]
mod tests;
mod token_decoder;
mod worker;

pub use server::{ModelServer, ModelServerOptions};
