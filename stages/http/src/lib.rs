//! Asks HTTP services that stages depend on: JSON in, JSON out, many requests at a time.
//!
//! A [`Desk`] (one thread asks) or a [`Postbox`] (many do) sends requests from threads that are not asynchronous,
//! retries what may succeed later, bounds time, size and number, and says in an [`Error`](trainyard_core::Error) of
//! the right kind what went wrong. It knows no service: what a request means is for whoever sends it. Keys go
//! into headers and into nothing else.
#![warn(missing_docs)]

mod address;
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
