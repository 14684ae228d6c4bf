//! Holds the options of `sft` with the parts that they name.

use super::SftConfig;
use crate::backend_config::BackendConfig;
use crate::config::default_environment;
use crate::native;
use crate::parts::TrainParts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::PreparedOptions;
use trainyard_core::{Facts, OptionProblem, WiredInputs};
use trainyard_envs::environments::{self, EnvironmentSlot};

/// Options, backend, and the environment of `stop_at`.
pub struct PreparedSft {
    /// Options and backend.
    pub trained: BackendConfig<SftConfig>,
    /// Environment of `stop_at`; the default environment without `stop_at`.
    pub environment: EnvironmentSlot,
}

/// Reads the environment of `stop_at` and fills in its defaults there.
pub fn environment(parts: &TrainParts, options: &mut Value) -> EnvironmentSlot {
    let family = &parts.envs.environments;
    match options.get_mut("stop_at").filter(|stop| stop.is_object()) {
        Some(stop) => environments::read(family, stop, default_environment),
        None => environments::read(family, &mut json!({}), default_environment),
    }
}

impl PreparedOptions for PreparedSft {
    type Config = SftConfig;

    fn config(&self) -> &SftConfig {
        &self.trained.config
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.trained.problems();
        if let Some(stop) = &self.trained.config.stop_at {
            let environment_problems = self.environment.problems();
            problems.extend(environment_problems.into_iter().map(|problem| problem.with_prefix("/stop_at")));
            problems.extend(native::problems(&stop.environment, &self.trained.config.template));
            let sampling = stop.sampling.distribution();
            problems.extend(self.trained.backend.problem_with_sampling("/stop_at/sampling", &sampling));
        }
        problems
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.trained.problems_with(inputs)
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.trained.warnings_with(inputs)
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.trained.facts(inputs)
    }

    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.trained.problems_with_gpus(gpus)
    }
}
