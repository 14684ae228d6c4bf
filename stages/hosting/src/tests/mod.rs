//! Models that answer: a small random one through the reference, and one that says what it is told to.

mod fronted;
mod real;
mod scripted;
mod spoken;
