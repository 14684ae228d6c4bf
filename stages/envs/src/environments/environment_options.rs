//! Defines the trait of environment options, which may name tools and formats that a program adds.

use crate::Toolbox;
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of an environment. Options that name no tools and no format use the default methods.
pub trait EnvironmentOptions: PartOptions {
    /// Like [`PartOptions::check`], with the names that the options may contain.
    fn check_with(&self, _toolbox: &Toolbox) -> Vec<OptionProblem> {
        self.check()
    }
    /// Adds the names that the options may contain to their schema.
    fn fill_schema(_schema: &mut Value, _toolbox: &Toolbox) {}
}
