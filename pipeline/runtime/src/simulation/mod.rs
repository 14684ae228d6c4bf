//! Deterministic simulation: the real engine, dispatch loop, journal writer, carrier and resume, over a store in memory
//! and a simulated cluster, under one seeded scheduler with faults (`docs/design/0016-simulation.md`).
//!
//! Time is paused and everything runs on one thread, so a seed repeats itself: all that happens is drawn from it.
//!
//! - `TRAINYARD_SIMULATION_SEEDS=10000` tries so many seeds, `TRAINYARD_SIMULATION_FIRST=5000` from this one on.
//! - `TRAINYARD_SIMULATION_SEED=17` repeats one, and `TRAINYARD_SIMULATION_TRACE=1` prints what happens in it.

mod attempt;
mod audit;
mod cluster;
mod engine;
mod far;
mod mutants;
mod near;
mod people;
mod process;
mod scenario;
mod seeds;
mod server;
mod setting;
mod trace;
mod wire;
mod work;
mod workflow;
mod world;
