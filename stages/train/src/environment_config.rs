//! Reads the options of a stage that runs a model in one environment, together with the environment and the backend.

use crate::backend_config::BACKEND_POINTER;
use crate::config::default_environment;
use crate::native;
use crate::parts::TrainParts;
use crate::problems;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::PreparedOptions;
use trainyard_core::{Facts, OptionProblem, Result, WiredInputs};
use trainyard_envs::environments::{self, EnvironmentSlot};
use trainyard_lm::backend::registry::BackendSlot;
use trainyard_lm::shape;
use trainyard_lm::template::TemplateOptions;
use trainyard_tables::SamplingParams;

/// Options with the keys `environment` and `backend`, of a stage whose input `problems` is made for that environment.
pub trait PlayOptions: Serialize + JsonSchema + Send + 'static {
    /// Returns the value of `environment`.
    fn environment(&self) -> &Value;
    /// Checks ranges and contradictions of the options, except those of the environment and the backend.
    fn problems(&self) -> Vec<OptionProblem>;
    /// Returns whether the stage trains a model with its backend.
    fn trains(&self) -> bool {
        false
    }
    /// Returns the pointer to the sampling options and their distribution, or `None` if the stage does not sample.
    fn sampling(&self) -> Option<(&'static str, SamplingParams)> {
        None
    }
    /// Checks the options against the artifacts at the ports.
    fn problems_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns probable mistakes, given the facts of the inputs.
    fn warnings_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns the chat-template options of the models.
    fn template(&self) -> &TemplateOptions;
    /// Returns the known facts of the outputs, by port.
    fn facts(&self, _inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        BTreeMap::new()
    }
}

/// Options with their environment and backend.
pub struct EnvironmentConfig<C> {
    /// Options, including those of the parts.
    pub config: C,
    pub environment: EnvironmentSlot,
    /// Backend of the models.
    pub backend: BackendSlot,
}

impl<C: PlayOptions> EnvironmentConfig<C> {
    /// Reads the environment and the backend and fills in their defaults, then parses all options.
    pub fn read(parts: &TrainParts, mut options: Value, parse: impl FnOnce(Value) -> Result<C>) -> Result<Self> {
        let environment = environments::read(&parts.envs.environments, &mut options, default_environment);
        let backend = BackendSlot::read(&parts.backends, BACKEND_POINTER, &mut options);
        Ok(Self { config: parse(options)?, environment, backend })
    }
    /// Returns the schema of the options, parts included.
    pub fn schema(parts: &TrainParts) -> Value {
        let mut schema = schemars::schema_for!(C).to_value();
        parts.fill_environment(&mut schema);
        schema
    }
}

impl<C: PlayOptions> PreparedOptions for EnvironmentConfig<C> {
    type Config = C;
    fn config(&self) -> &C {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let parts = self.environment.problems().into_iter().chain(self.backend.problems());
        let native = native::problems(self.config.environment(), self.config.template());
        let training = if self.config.trains() { self.backend.problem_with_training() } else { None };
        let sampling = self.config.sampling();
        let sampling = sampling.and_then(|(place, sampling)| self.backend.problem_with_sampling(place, &sampling));
        self.config.problems().into_iter().chain(native).chain(parts).chain(training).chain(sampling).collect()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let mut problems = self.config.problems_with(inputs);
        problems.extend(problems::environment_mismatches(self.config.environment(), inputs, &["problems"]));
        problems.extend(problems::lost_results(self.config.environment(), inputs, &["model", "models"]));
        problems.extend(shape::native_template_problems(self.config.template(), inputs, &["model", "models"]));
        let models = inputs.get("models").copied().unwrap_or(0);
        if models > 1 && !self.backend.features().weights {
            let problem =
                OptionProblem::new(BACKEND_POINTER, format!("the backend serves one model, but {models} are wired"));
            problems.push(problem.help("let the backend load weights, or evaluate each model in a separate stage"));
        }
        problems
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.config.warnings_with(inputs)
    }
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.backend.problems_with_gpus(gpus)
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.config.facts(inputs)
    }
}
