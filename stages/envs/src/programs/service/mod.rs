//! User-defined service: each line of the program protocol is a separate request (`docs/own-code.md`).
//!
//! Many stages may use a service at the same time, and it may be restarted at any moment, so every request names its
//! client, session names are unique, and a session that the service no longer knows is begun again.

mod greeting;
mod options;
mod peer;
#[cfg(test)]
mod tests;

pub use options::{Header, ServiceOptions};
pub use peer::Service;
