//! Which sequences are sampled for a problem, and which are kept. One file per strategy; the list is in [`crate::registry`].

pub mod independent;

pub use independent::Independent;
