//! Simulates runs deterministically: the real engine, dispatch loop, journal writer, supervisors and resume run on an
//! in-memory store and a simulated cluster, under one seeded scheduler with faults (`docs/design/0016-simulation.md`).
//!
//! Time is paused and everything runs on one thread, so a seed is reproducible: all events are drawn from it.
//!
//! - `TRAINYARD_SIMULATION_SEEDS=10000` runs that many seeds, beginning with `TRAINYARD_SIMULATION_FIRST=5000`.
//! - `TRAINYARD_SIMULATION_SEED=17` runs one seed, and `TRAINYARD_SIMULATION_TRACE=1` prints its events.

mod attempt;
mod audit;
mod cluster;
mod cluster_executor;
mod connection;
mod engine;
mod in_process_executor;
mod mutants;
mod operators;
mod process;
mod scenario;
mod seeds;
mod server;
mod setting;
mod trace;
mod work;
mod workflow;
mod world;
