//! Served models: a small random one through the reference, and a scripted one.

mod endpoint_backend;
mod real;
mod scripted;
mod turn_parsing;
