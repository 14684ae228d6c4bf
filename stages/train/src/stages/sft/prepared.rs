//! Options of `sft` with the parts that they name.

use super::Config;
use crate::config::default_environment;
use crate::native;
use crate::parts::Parts;
use crate::with_backend::WithBackend;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::Prepared;
use trainyard_core::{Facts, OptionProblem, Wired};
use trainyard_envs::environments::{self, EnvironmentSlot};

/// Options, backend, and the environment of `stop_at`.
pub struct Ready {
    /// Options and backend.
    pub trained: WithBackend<Config>,
    /// Environment of `stop_at`; the default one without it.
    pub environment: EnvironmentSlot,
}

/// Reads the environment of `stop_at` and fills in its defaults there.
pub fn environment(parts: &Parts, options: &mut Value) -> EnvironmentSlot {
    let family = &parts.envs.environments;
    match options.get_mut("stop_at").filter(|stop| stop.is_object()) {
        Some(stop) => environments::read(family, stop, default_environment),
        None => environments::read(family, &mut json!({}), default_environment),
    }
}

impl Prepared for Ready {
    type Config = Config;

    fn config(&self) -> &Config {
        &self.trained.config
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.trained.problems();
        if let Some(stop) = &self.trained.config.stop_at {
            let own = self.environment.problems();
            problems.extend(own.into_iter().map(|problem| problem.within("/stop_at")));
            problems.extend(native::problems(&stop.environment, &self.trained.config.template));
            let sampling = stop.sampling.distribution();
            problems.extend(self.trained.backend.problem_with_sampling("/stop_at/sampling", &sampling));
        }
        problems
    }

    fn problems_with(&self, inputs: &Wired) -> Vec<OptionProblem> {
        self.trained.problems_with(inputs)
    }

    fn warnings_with(&self, inputs: &Wired) -> Vec<OptionProblem> {
        self.trained.warnings_with(inputs)
    }

    fn facts(&self, inputs: &Wired) -> BTreeMap<String, Facts> {
        self.trained.facts(inputs)
    }

    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.trained.problems_with_gpus(gpus)
    }
}
