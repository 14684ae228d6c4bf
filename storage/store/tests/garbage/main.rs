//! Garbage collection never takes reachable data: random stores against a model, and collections next to processes that
//! publish.

mod beside;
mod dated;
mod random;
mod steps;
mod world;
