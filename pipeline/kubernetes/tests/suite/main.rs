//! The executor against the small API server of these tests.

mod ends;
mod place;
mod processes;
mod server;
mod states;
mod submission;
