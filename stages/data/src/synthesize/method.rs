//! What a synthesis method is.

use super::Config;
use serde_json::Value;
use trainyard_api::Report;
use trainyard_core::{OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::Environments;
use trainyard_tables::{Problem, Trajectory};

/// A way to make problems and demonstrations. One file each; a line in `registry.rs`.
pub trait Method: Send + Sync {
    fn name(&self) -> &'static str;
    /// One line for lists.
    fn summary(&self) -> &'static str;
    /// Options of the environment if the config names none.
    fn environment(&self) -> Value;
    /// Options that this method cannot work with. `environment` is absent if it cannot be built; `known` are those of this build.
    fn check(&self, config: &Config, environment: Option<&dyn Environment>, known: &Environments)
    -> Vec<OptionProblem>;
    /// Makes everything; a function of config, given problems and environment. `progress` gets (done, total) and may stop it.
    fn make(
        &self,
        config: &Config,
        given: Vec<Problem>,
        environment: &dyn Environment,
        progress: &dyn Fn(usize, usize) -> Result<()>,
    ) -> Result<Synthesized>;
}

/// What a method made.
#[derive(Debug, Clone)]
pub struct Synthesized {
    pub problems: Vec<Problem>,
    pub demonstrations: Vec<Trajectory>,
    /// With the method's own metrics and tables.
    pub report: Report,
}
