//! Server dialects, one file each: the request for a turn, the meaning of the response, and weight updates.
//!
//! All fields are documented by the server. A response that lacks a requested field is an error that names it.

mod form;
mod llama_cpp;
mod server;
mod sglang;
mod vllm;

pub use form::{Dialect, EndpointTurnOutput, EndpointTurnRequest, LogprobsMode, ServedModelName, WeightUpdateApi, ids};
pub use server::InferenceServerKind;
