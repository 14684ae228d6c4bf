//! Where stage rooms, store, pools and executors meet.

use trainyard_api::Registry;
use trainyard_core::Result;
use trainyard_runtime::executors::{Launcher, standard};

/// All stage kinds of this build, one line for each room.
pub fn registry() -> Result<Registry> {
    Registry::new([
        trainyard_data::registry::stages(),
        trainyard_lm::registry::stages(),
        trainyard_train::registry::stages(),
    ])
}

/// Names of the executors that pools may use. They are asked of the executors themselves, which launch nothing for
/// that.
pub fn executors() -> Vec<&'static str> {
    standard(&Launcher::new(""), None).names()
}
