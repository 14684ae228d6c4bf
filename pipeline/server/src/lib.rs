//! What runs while nobody is there: the daemon behind `trainyard serve`, which fires schedules and answers over HTTP.
//!
//! ```text
//! workflow files ──folder──▶ definitions ─┐
//! clock ────────────────────────────────┐ │
//!                                       ▼ ▼
//!    log in the store ──state──▶ decide, steps (pure) ──keeper──▶ records in the log, runs
//! ```
//!
//! Nothing but the store is shared by daemons. The log of a schedule (`schedules/<name>/log/`) holds every decision;
//! `docs/design/0013-schedules.md` says why two daemons fire each tick once.

#![warn(missing_docs)]

pub mod api;
pub mod appear;
pub mod book;
pub mod daemon;
pub mod folder;
pub mod keeper;
pub mod log;
pub mod outside;
pub mod processes;
pub mod schedule;
#[cfg(test)]
mod simulation;
pub mod texts;
pub mod watch;
