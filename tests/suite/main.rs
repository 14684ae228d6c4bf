//! The black-box suite: the binary as its users meet it. One test binary for the whole house.
//!
//! Each module is one promise; each sample under `samples/` is named after its mistake.

mod kit;
mod published;

mod adapters;
mod artifacts;
mod attempts;
mod backends;
mod bad_input;
mod caching;
mod check;
mod clouds;
mod consumers;
mod detached;
mod diagnostics;
mod docs;
mod endpoint;
mod engines;
mod executors;
mod faults;
mod first_hour;
mod garbage;
mod groups;
mod harness;
mod healing;
mod hosts;
mod importing;
mod judges;
mod kills;
mod known_models;
mod looking;
mod metrics;
mod notifications;
mod outliving;
mod own_code;
mod own_environments;
mod ported;
mod preference;
mod prelude;
mod ray;
mod recipes;
mod resume;
mod run_stages;
mod s3;
mod saved_weights;
mod secrets;
mod serve;
mod serve_model;
mod shipped;
mod shipped_recipes;
mod slurm;
mod terminal;
mod tracking;
mod trying;
