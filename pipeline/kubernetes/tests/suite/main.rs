//! Tests of the executor against a small API server.

mod ends;
mod place;
mod processes;
mod server;
mod states;
mod submission;
