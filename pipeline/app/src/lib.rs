//! Wires a run together: the stage kinds, parts and executors of a program ([`Catalogue`]), the site and the store
//! ([`session`]), the dependencies of a run ([`wiring`]), and the attempts of its stages ([`attempt`]).
//!
//! Custom programs pass a [`CatalogueBuilder`] to `trainyard::main`. This crate neither prints nor parses a command
//! line.

pub mod attempt;
pub mod catalogue;
pub mod conformance;
pub mod endpoints;
mod in_process;
pub mod inline;
pub mod machine;
pub mod notifications;
pub mod query_process;
mod scratch;
pub mod session;
mod token_counter;
pub mod tools;
pub mod tracking;
pub mod trial;
pub mod wiring;
pub mod workflow;

pub use catalogue::{Catalogue, CatalogueBuilder, CatalogueEntry};
pub use scratch::ScratchFolder;
pub use session::{Access, AppSession, SessionError, SessionOptions};
