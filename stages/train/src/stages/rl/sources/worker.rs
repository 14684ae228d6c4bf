//! Sampling outside of the step, for asynchronous and repeated runs.

use crate::rollouts::{Driver, Limits};
use crate::stages::rl::state::Run;
use trainyard_api::CancelToken;
use trainyard_core::Chance;
use trainyard_envs::Environment;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::Sampler;
use trainyard_tables::{Problem, Sampling};

/// State of a driver, except its sampler.
pub struct Worker<'a> {
    pub model: &'a ModelFolder,
    pub environment: &'a dyn Environment,
    pub problems: &'a [Problem],
    pub limits: Limits,
    pub sampling: Sampling,
    pub chance: Chance,
    pub cancel: &'a CancelToken,
}

impl<'a> Worker<'a> {
    pub fn of(run: &'a Run<'_>) -> Self {
        Self {
            model: &run.policy.folder,
            environment: &*run.environment,
            problems: &run.problems,
            limits: run.limits(),
            sampling: run.config.sampling().distribution(),
            chance: run.chance.child("asynchronous", &[]),
            cancel: &run.cancel,
        }
    }
    pub fn driver<'s>(&'s self, sampler: &'s mut dyn Sampler) -> Driver<'s, 'a> {
        Driver {
            sampler,
            model: self.model,
            environment: self.environment,
            limits: self.limits,
            sampling: self.sampling,
            chance: self.chance,
            name: "rl".into(),
            cancel: self.cancel,
        }
    }
}
