//! Implements the protocols of servers, one file each: the request for a turn, the parsing of its response, and weight
//! updates.
//!
//! Every field is documented by the server's project. A response without a requested field is an error that names the
//! field.

mod form;
mod llama_cpp;
mod server;
mod sglang;
mod vllm;

pub use form::{Dialect, EndpointTurnOutput, EndpointTurnRequest, LogprobsMode, ServedModelName, WeightUpdateApi, ids};
pub use server::InferenceServerKind;
