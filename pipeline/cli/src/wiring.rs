//! The only place where everything meets: stage rooms, store, pools, executors.

use trainyard_api::Registry;
use trainyard_core::Result;

/// All stage kinds of this build, one line for each room.
pub fn registry() -> Result<Registry> {
    Registry::new([trainyard_data::registry::stages(), trainyard_lm::registry::stages(), trainyard_train::registry::stages()])
}
