//! Options of environments, which may name what a program adds.

use crate::Toolbox;
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of an environment. One that names no tools and no format implements nothing here.
pub trait EnvironmentOptions: PartOptions {
    /// As [`PartOptions::check`], with the names that the options may hold.
    fn check_with(&self, _toolbox: &Toolbox) -> Vec<OptionProblem> {
        self.check()
    }
    /// Puts the names that the options may hold into their schema.
    fn fill_schema(_schema: &mut Value, _toolbox: &Toolbox) {}
}
