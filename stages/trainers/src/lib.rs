//! Runs third-party trainers as stages. A trainer gets a model and rows in its own columns. The stage follows the
//! trainer while it runs, and publishes its output weights as a model artifact.
//!
//! A trainer is any program that reads one JSON file (its `job`) and appends lines of JSON to another (its `events`).
//! `engine/command` runs a user-defined program through this interface, and the other kinds contain a program
//! (`docs/engines.md`).
mod columns;
mod command;
mod events;
mod follow;
mod job;
mod progress;
mod registry;
mod results;
mod resume;
mod rollouts;
mod run;
#[cfg(test)]
mod testing;
mod trl;

pub use registry::stages;
