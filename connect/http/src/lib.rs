//! Client for the HTTP services that stages depend on: JSON in, JSON out, many requests at a time.
//!
//! A [`Desk`] (one thread sends) or a [`Postbox`] (many do) sends requests from synchronous threads, retries those that
//! may succeed later, limits time, size and number, and returns failures as an [`Error`](trainyard_core::Error) of the
//! right kind. It is independent of the service: the caller defines the meaning of a request. Keys are used in headers
//! only.
mod address;
mod background;
mod client;
mod desk;
mod fault;
mod postbox;
mod retry;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use client::{Call, Credentials, Enough, Heard, Limits, Post};
pub use desk::{Desk, Ticket};
pub use fault::{Fault, Reach};
pub use postbox::Postbox;
