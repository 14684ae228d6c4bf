//! Tests served models: a small random one on the reference backend, and a scripted one.

mod endpoint_backend;
mod forms;
mod real;
mod scripted;
mod turn_parsing;
