//! Runs workflows unattended: contains the daemon of `trainyard serve`, which fires schedules and serves HTTP.
//!
//! ```text
//! workflow files ──folder──▶ definitions ─┐
//! clock ────────────────────────────────┐ │
//!                                       ▼ ▼
//!    log in the store ──state──▶ decide, steps (pure) ──reconciler──▶ records in the log, runs
//! ```
//!
//! Daemons share only the store. The log of a schedule (`schedules/<name>/log/`) contains every decision;
//! `docs/design/0013-schedules.md` explains why two daemons fire each tick once.

pub mod api;
pub mod control;
pub mod daemon;
pub mod effects;
pub mod folder;
pub mod history;
pub mod log;
pub mod operations;
pub mod plan_summary;
pub mod processes;
pub mod reconciler;
pub mod requests;
pub mod schedule;
pub mod sensor;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod triggers;
pub mod watch;
