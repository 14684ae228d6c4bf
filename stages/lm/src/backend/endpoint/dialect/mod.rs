//! Server dialects, one file each: the request for a turn, the meaning of the response, and weight updates.
//!
//! All fields are documented by the server. A response that lacks a requested field is an error that names it.

mod form;
mod llama_cpp;
mod server;
mod sglang;
mod vllm;

pub use form::{Ask, Dialect, HandOver, Meaning, Name, Told, ids};
pub use server::Server;
