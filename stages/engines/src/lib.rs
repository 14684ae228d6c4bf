//! Trainers of other people as stages: their program gets a model and rows in its own columns, is followed while it
//! runs, and the weights that it leaves become a model artifact.
//!
//! A trainer is any program that reads one JSON file (its `job`) and appends lines of JSON to another (its
//! `events`). `engine/command` runs a program of the user by this seam, and the other kinds bring a program of their
//! own (`docs/engines.md`).
#![warn(missing_docs)]

mod columns;
mod command;
mod events;
mod follow;
mod job;
mod practice;
mod registry;
mod results;
mod resume;
#[cfg(test)]
mod testing;
mod told;
mod trl;
mod work;

pub use registry::stages;
