//! User-defined service: each line of the program protocol is a separate request (`docs/custom-code.md`).
//!
//! Many stages may use a service at the same time, and it may be restarted at any moment, so every request names its
//! client, session names are unique, and a session that the service no longer knows is begun again.

mod client;
mod handshake;
mod options;
#[cfg(test)]
mod tests;

pub use client::ServiceClient;
pub use options::{ServiceHeader, ServiceOptions};
