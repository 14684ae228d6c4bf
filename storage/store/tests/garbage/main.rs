//! Tests that garbage collection never removes reachable data: random stores are compared with a model, and collections
//! run concurrently with processes that publish.

mod beside;
mod dated;
mod random;
mod steps;
mod world;
