//! Served models: a small random one through the reference, and a scripted one.

mod fronted;
mod real;
mod scripted;
mod spoken;
