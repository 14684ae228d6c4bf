//! Tests the executor against a small API server.

mod ends;
mod fixture;
mod processes;
mod server;
mod states;
mod submission;
