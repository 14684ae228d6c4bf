//! What servers understand, one file each: how a turn is asked for, what the answer means, how weights are handed over.
//!
//! Every field is one that the server documents. An answer that lacks what was asked for is an error that names it.

mod form;
mod llama_cpp;
mod server;
mod sglang;
mod vllm;

pub use form::{Ask, Dialect, HandOver, Meaning, Name, Told, ids};
pub use server::Server;
