//! Connects to user-defined services: each line of the program protocol is a separate request (`docs/custom-code.md`).
//!
//! Many stages may use a service at the same time, and it may be restarted at any moment. Every request therefore names
//! its client, session names are unique, and the client starts a session again if the service no longer knows it.

mod client;
mod handshake;
mod options;
#[cfg(test)]
mod tests;

pub use client::ServiceClient;
pub use options::{ServiceHeader, ServiceOptions};
