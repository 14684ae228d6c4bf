//! Implements the stage `rl`: reinforcement learning of a tool-using agent with verifiable rewards
//! (`docs/design/0005`).
//!
//! The loop knows only the traits of RL parts, so a published method is a composition in the config. A check before the
//! run reports parts whose needs neither the environment nor the loop meets.

mod asynchronous;
mod collect;
pub mod config;
mod critic;
mod declared;
mod defaults;
mod effects;
mod filtering;
mod inputs;
mod learn;
pub mod parts;
mod pool;
mod report;
mod rollout_stats;
mod run;
mod sources;
mod state;
#[cfg(test)]
mod tests;
mod trial;
pub mod update;
pub mod validate;

pub use config::RlConfig;

use crate::backend_config::BACKEND_POINTER;
use crate::config::{default_environment, default_rewards};
use crate::model;
use crate::model_options;
use crate::native;
use crate::optimize::TrainingMethod;
use crate::problems;
use crate::rewards::Rewards;
use inputs::{RlInputOptions, RlInputs, open};
use parts::RlParts;
use run::RlRun;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_api::stage::refuse;
use trainyard_api::{Ports, PreparedOptions, Stage, StageContext, Trial, TrialEpisode, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Facts, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_envs::ToolHost;
use trainyard_envs::environments::{self, EnvironmentSlot};
use trainyard_envs::rewards::RewardContext;
use trainyard_envs::rewards::RewardList;
use trainyard_learn::compose::{self, ComposedParts};
use trainyard_lm::backend::BackendFeatures;
use trainyard_lm::backend::registry::BackendSlot;
use trainyard_lm::memory::TrainingMemory;
use trainyard_lm::shape;
use trainyard_tables::{read_trajectories, write_trajectories};

/// Pointer to the backend of the rollouts in the options.
const SAMPLING_BACKEND_POINTER: &str = "/rollout/backend";

#[derive(Default)]
pub struct Rl {
    /// Families of parts that the options may name.
    pub parts: crate::TrainParts,
}

impl Stage for Rl {
    type Prepared = PreparedRl;
    const NAME: &'static str = "rl";
    const VERSION: u32 = 5;
    const SUMMARY: &'static str = "reinforcement learning with tools in the loop and verifiable rewards";
    const DOC: &'static str = include_str!("rl.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"algorithm": "grpo", "steps": 40, "problems_per_step": 32, "#,
        r#""rollout": {"group_size": 8, "temperature": 1.0}}"#
    );
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const PLAYS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("reward_mean");
    // A curriculum makes the problems harder, so the mean reward may fall while the policy improves.
    const MAIN_METRIC_WITH: &'static [(&'static str, &'static str)] = &[("validation", "validation_accuracy")];

    const FAMILIES: &'static [&'static str] = &[
        "advantages",
        "algorithms",
        "backends",
        "corrections",
        "curricula",
        "environments",
        "filters",
        "formats",
        "losses",
        "modulations",
        "replay",
        "rewards",
        "strategies",
        "tools",
        "verifiers",
    ];

    fn ports(&self) -> Ports {
        use ArtifactKind::{Model, Problems, Report, Trajectories};
        use Cardinality::{One, Optional};
        Ports {
            inputs: vec![
                port("model", Model, One, "The policy to start from."),
                port("problems", Problems, One, "Problems to train on."),
                port("validation", Problems, Optional, "Held-out problems that choose the weights to keep."),
                port(
                    "record",
                    Trajectories,
                    Optional,
                    "The rollouts of an asynchronous run, to repeat it to the same bits.",
                ),
                port(
                    "demonstrations",
                    Trajectories,
                    Optional,
                    "Worked episodes of the problems, for strategies that begin with them.",
                ),
            ],
            outputs: vec![
                port("model", Model, One, "The trained policy."),
                port("trajectories", Trajectories, One, "The newest rollouts, with rewards, verdicts and advantages."),
                port("report", Report, One, "Learning curves and final metrics."),
            ],
        }
    }
    fn metrics(&self) -> DeclaredMetrics {
        declared::any(&self.parts)
    }
    fn declared_metrics(&self, prepared: &PreparedRl, producers: &Producers) -> DeclaredMetrics {
        declared::of(&prepared.composed, &prepared.rewards, producers, prepared.sampler().entropies)
    }
    fn schema(&self) -> Value {
        config::schema(&self.parts)
    }
    fn prepare(&self, options: Value) -> Result<PreparedRl> {
        let mut options = compose::resolve_algorithm(&self.parts.learn, options)?;
        let composed = ComposedParts::read(&self.parts.learn, &mut options);
        let environment = environments::read(&self.parts.envs.environments, &mut options, default_environment);
        if let Some(map) = options.as_object_mut() {
            map.entry("rewards").or_insert_with(default_rewards);
        }
        let rewards = RewardList::read(&self.parts.envs.rewards, &mut options["rewards"]);
        let backend = BackendSlot::read(&self.parts.backends, BACKEND_POINTER, &mut options);
        let elsewhere = BackendSlot::read_optional(&self.parts.backends, SAMPLING_BACKEND_POINTER, &mut options);
        let parts = RlParts::build(&composed).ok();
        Ok(PreparedRl {
            config: self.parse(options)?,
            composed,
            parts,
            environment,
            rewards,
            backend,
            sampling_backend: elsewhere,
        })
    }

    fn run(&self, prepared: PreparedRl, context: &mut StageContext) -> Result<()> {
        refuse(prepared.problems_with(&context.wired()))?;
        let entropies = prepared.sampler().entropies;
        let PreparedRl { config, composed, parts, environment, rewards, backend, sampling_backend: elsewhere } =
            prepared;
        // Building the parts again returns the error if they could not be built earlier.
        let parts = parts.map_or_else(|| RlParts::build(&composed), Ok)?;
        let declared = declared::of(&composed, &rewards, &context.producers(), entropies).metrics;
        let needs_demonstrations = parts.needs().demonstrations;
        let opening =
            RlInputOptions { config: &config, environment, backend, sampling_backend: elsewhere, needs_demonstrations };
        let RlInputs { policy, learns, episodes, host } = open(&self.parts, opening, context)?;
        let record = context.optional("record").map(|a| read_trajectories(&a.parquet())).transpose()?;
        let run = RlRun::new(&config, (&policy, learns), episodes, declared.clone(), context)?;
        let rewards = Rewards::new(&rewards, &RewardContext::of_host(&host))?;
        let outcome = run.run(parts, rewards, record.as_deref(), context)?;
        host.report(context);
        host.models().finish(context)?;
        let model = policy.folder.with_parameters(&outcome.weights)?;
        model::save(context, "model", &model, config.adapter.as_ref(), &config.save)?;
        write_trajectories(&context.output_parquet("trajectories")?, &outcome.rollouts)?;
        report::write(context, &config, &declared, &outcome.state)
    }
    fn trial(&self, prepared: PreparedRl, trial: &Trial, context: &mut StageContext) -> Result<Vec<TrialEpisode>> {
        refuse(prepared.problems_with(&context.wired()))?;
        let PreparedRl { config, composed, parts, environment, rewards, backend, sampling_backend: elsewhere } =
            prepared;
        let parts = parts.map_or_else(|| RlParts::build(&composed), Ok)?;
        let needs_demonstrations = parts.needs().demonstrations;
        let opening =
            RlInputOptions { config: &config, environment, backend, sampling_backend: elsewhere, needs_demonstrations };
        let opened = open(&self.parts, opening, context)?;
        let rewards = Rewards::new(&rewards, &RewardContext::of_host(&opened.host))?;
        trial::trial(&config, opened, (parts, rewards), trial, context)
    }
}

/// Options of `rl` with their parts. Parts are built once, so the checked parts are those that run.
pub struct PreparedRl {
    config: RlConfig,
    composed: ComposedParts,
    /// `None` if any part has a problem.
    parts: Option<RlParts>,
    environment: EnvironmentSlot,
    rewards: RewardList,
    backend: BackendSlot,
    /// Backend of the rollouts, if it differs from that of training.
    sampling_backend: Option<BackendSlot>,
}

impl PreparedRl {
    /// Returns the capabilities of the backend of the rollouts.
    fn sampler(&self) -> BackendFeatures {
        self.sampling_backend.as_ref().unwrap_or(&self.backend).features()
    }
}

impl PreparedOptions for PreparedRl {
    type Config = RlConfig;
    fn config(&self) -> &RlConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.config.problems();
        problems.extend(self.composed.problems());
        problems.extend(native::problems(&self.config.environment, &self.config.template));
        problems.extend(self.environment.problems());
        problems.extend(self.backend.problems());
        problems.extend(self.backend.problem_with_training());
        if let Some(elsewhere) = &self.sampling_backend {
            problems.extend(elsewhere.problems());
            problems.extend(elsewhere.problem_with_weights());
        }
        problems.extend(self.rewards.problems().into_iter().map(|problem| problem.with_prefix("/rewards")));
        if let (Some(parts), Ok(environment)) = (&self.parts, self.environment.build(&ToolHost::idle())) {
            problems.extend(parts.contradictions(&self.config, &*environment, &self.sampler()));
        }
        problems
    }
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        let mut problems = self.backend.problems_with_gpus(gpus);
        if let Some(elsewhere) = &self.sampling_backend {
            let others = elsewhere.problems_with_gpus(gpus);
            if gpus > 0 && (problems.is_empty() || others.is_empty()) {
                // One of the two backends uses the GPUs.
                return Vec::new();
            }
            problems.extend(others);
        }
        problems
    }
    fn needs(&self) -> Vec<&'static str> {
        self.parts.as_ref().map(|parts| parts.needs().names()).unwrap_or_default()
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::trained(inputs, self.config.adapter.as_ref())
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let (config, changed) = (&self.config, self.config.adapter.as_ref().into());
        let policy = config.optimizer.warning("/optimizer", TrainingMethod::Rl, inputs, changed);
        let critic = self.parts.as_ref().is_some_and(|parts| parts.needs().values);
        let critic = critic
            .then(|| config.critic.optimizer.warning("/critic/optimizer", TrainingMethod::Critic, inputs, changed));
        let tokens = config.rollout.max_episode_tokens;
        let long = shape::beyond_context(inputs, "model", "/rollout/max_episode_tokens", tokens);
        policy.into_iter().chain(critic.flatten()).chain(long).collect()
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let config = &self.config;
        let wired = |port: &str| inputs.get(port).is_some_and(|n| *n > 0);
        let mut problems = problems::environment_mismatches(&config.environment, inputs, &["problems", "validation"]);
        problems.extend(problems::lost_results(&config.environment, inputs, &["model"]));
        let adapter = config.adapter.as_ref();
        let training = TrainingMemory { adapter, tokens: config.micro_batch_tokens, samples: true };
        problems.extend(model_options::unsuitable(inputs, &["model"], &config.template, &training));
        if !wired("demonstrations") && self.parts.as_ref().is_some_and(|parts| parts.needs().demonstrations) {
            let problem = OptionProblem::new("/demonstrations", "a part needs demonstrations, but none are connected");
            problems.push(problem.help("connect `demonstrations` to the trajectories that solve these problems"));
        }
        if !wired("validation") && config.validate_every.is_some_and(|every| every > 0) {
            let problem = OptionProblem::new("/validate_every", "no validation data: `validation` is not wired");
            problems.push(problem.help("wire `validation` to held-out problems, or leave `validate_every` out"));
        }
        if wired("record") && !self.sampler().reproducible_draws {
            let problem = OptionProblem::new(
                "/record",
                "a record cannot be repeated with `rollout.backend`, whose equal requests may differ",
            );
            problems.push(problem.help("leave `rollout.backend` out, or `record`"));
        }
        if wired("record") && config.rollout.asynchronous.is_none() {
            let problem = OptionProblem::new(
                "/record",
                "a record repeats asynchronous rollouts, but `rollout.asynchronous` is off",
            );
            problems.push(problem.help("set the options of the recorded run; synchronous runs need no record"));
        }
        problems
    }
}
