//! Options of a stage that plays in one environment, read together with it.

use crate::config::default_environment;
use crate::parts::Parts;
use crate::problems;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::Prepared;
use trainyard_core::{Facts, OptionProblem, Result, Wired};
use trainyard_envs::environments::{self, EnvironmentSlot};

/// Options with a key `environment`, of a stage whose input `problems` is made for it.
pub trait PlayOptions: Serialize + JsonSchema + Send + 'static {
    /// The value of `environment`.
    fn environment(&self) -> &Value;
    /// Ranges and contradictions of the options, without the environment's own.
    fn problems(&self) -> Vec<OptionProblem>;
    /// What the options and the artifacts at the ports contradict in.
    fn problems_with(&self, _inputs: &Wired) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// What is known about the outputs before the run.
    fn facts(&self, _inputs: &Wired) -> BTreeMap<String, Facts> {
        BTreeMap::new()
    }
}

/// The options and the environment that they name.
pub struct WithEnvironment<C> {
    /// The options, the environment's included.
    pub config: C,
    /// The environment.
    pub environment: EnvironmentSlot,
}

impl<C: PlayOptions> WithEnvironment<C> {
    /// Reads the environment, then all options with its defaults filled in.
    pub fn read(parts: &Parts, mut options: Value, parse: impl FnOnce(Value) -> Result<C>) -> Result<Self> {
        let environment = environments::read(&parts.envs.environments, &mut options, default_environment);
        Ok(Self { config: parse(options)?, environment })
    }
    /// The schema of the options, environments included.
    pub fn schema(parts: &Parts) -> Value {
        let mut schema = schemars::schema_for!(C).to_value();
        parts.fill_environment(&mut schema);
        schema
    }
}

impl<C: PlayOptions> Prepared for WithEnvironment<C> {
    type Config = C;
    fn config(&self) -> &C {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.config.problems().into_iter().chain(self.environment.problems()).collect()
    }
    fn problems_with(&self, inputs: &Wired) -> Vec<OptionProblem> {
        let mut problems = self.config.problems_with(inputs);
        problems.extend(problems::misfits(self.config.environment(), inputs, &["problems"]));
        problems
    }
    fn facts(&self, inputs: &Wired) -> BTreeMap<String, Facts> {
        self.config.facts(inputs)
    }
}
