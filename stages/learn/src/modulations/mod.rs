//! Changes of advantages after they were assigned. One file per form; the list is in [`crate::registry`].

pub mod whiten;

pub use whiten::Whiten;
