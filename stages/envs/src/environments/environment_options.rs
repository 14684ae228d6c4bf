//! Defines the trait of environment options, which may name tools and formats that a program adds.

use crate::Toolbox;
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of an environment. The default methods suit options that name no tools and no format.
pub trait EnvironmentOptions: PartOptions {
    /// Checks the options like [`PartOptions::check`], and the names in them against the toolbox.
    fn check_with(&self, _toolbox: &Toolbox) -> Vec<OptionProblem> {
        self.check()
    }
    /// Adds the names of the toolbox that the options may contain to their schema.
    fn fill_schema(_schema: &mut Value, _toolbox: &Toolbox) {}
}
