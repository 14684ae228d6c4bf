//! Samples rollouts outside of the step, for asynchronous and repeated runs.

use crate::rollouts::{EpisodeLimits, RolloutDriver};
use crate::stages::rl::state::RlRun;
use trainyard_api::CancelToken;
use trainyard_core::Chance;
use trainyard_envs::Environment;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::Sampler;
use trainyard_tables::{Problem, SamplingParams};

/// State of a driver, except its sampler.
pub struct RolloutWorker<'a> {
    pub model: &'a ModelFolder,
    pub environment: &'a dyn Environment,
    pub problems: &'a [Problem],
    pub limits: EpisodeLimits,
    pub sampling: SamplingParams,
    pub chance: Chance,
    pub cancel: &'a CancelToken,
}

impl<'a> RolloutWorker<'a> {
    pub fn of(run: &'a RlRun<'_>) -> Self {
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
    pub fn driver<'s>(&'s self, sampler: &'s mut dyn Sampler) -> RolloutDriver<'s, 'a> {
        RolloutDriver {
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
