//! Implements modulations, which change assigned advantages.

pub mod entropy_balanced;
pub mod entropy_modulated;
pub mod shared_prefix;
pub mod whiten;
