//! Garbage collection never takes what something can reach: random stores against a model, and collections beside
//! processes that publish.

mod beside;
mod dated;
mod random;
mod steps;
mod world;
