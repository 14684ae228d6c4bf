//! Everything that wires a run: which stage kinds, parts and executors a program has ([`Catalogue`]), the site and the
//! store ([`session`]), what a run uses ([`wiring`]), and the attempts that its stages become ([`attempt`]).
//!
//! A program of its own hands the [`Builder`] of its catalogue to `trainyard::main`; nothing here prints or reads a
//! command line.

#![warn(missing_docs)]

pub mod attempt;
pub mod catalogue;
pub mod conformance;
mod in_process;
pub mod inline;
pub mod machine;
pub mod notifications;
pub mod query_process;
mod scratch;
pub mod session;
pub mod tools;
pub mod tracking;
pub mod trial;
pub mod wiring;
pub mod workflow;

pub use catalogue::{Builder, Catalogue, Entry};
pub use scratch::Scratch;
pub use session::{Access, Place, Refusal, Session};
