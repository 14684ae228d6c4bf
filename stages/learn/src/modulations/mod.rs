//! Modulations: changes of advantages after they were assigned.

pub mod entropy_balanced;
pub mod entropy_modulated;
pub mod shared_prefix;
pub mod whiten;

pub use entropy_balanced::EntropyBalanced;
pub use entropy_modulated::EntropyModulated;
pub use shared_prefix::SharedPrefix;
pub use whiten::Whiten;
