//! Modulations: changes of advantages after they were assigned.

pub mod entropy_balanced;
pub mod entropy_modulated;
pub mod shared_prefix;
pub mod whiten;
