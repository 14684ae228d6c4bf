//! From rewards to a number per token. One file per form; the list is in [`crate::registry`].

pub mod group;

pub use group::Group;
