//! Implements `stop_at`, which ends fine-tuning as soon as sampled episodes of an environment pass often enough.
//!
//! Neither the number of steps nor the loss determines the pass rate of a cold start: equal steps ended at 0.35 on one
//! seed and at 0.77 on another. A comparison of RL between seeds should therefore start from a measured pass rate.

use crate::config::{SamplingOptions, default_environment, kv_memory};
use crate::model::PolicyModel;
use crate::native;
use crate::optimize::ModelTrainer;
use crate::parts::TrainParts;
use crate::problems;
use crate::rollouts::{EpisodeJob, EpisodeLimits, RolloutDriver, ToolWait};
use crate::stages::rl::validate::equal_shares;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use trainyard_api::StageContext;
use trainyard_core::{Chance, Error, OptionProblem, Result, WiredInputs};
use trainyard_envs::environments::EnvironmentSlot;
use trainyard_envs::{Environment, ToolHost};
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::Sampler;
use trainyard_lm::template::TemplateOptions;
use trainyard_tables::Problem;

/// Name of the input with the problems that episodes are played on.
pub const PORT: &str = "problems";
/// Name of the curve and of the metric.
pub const METRIC: &str = "stop_accuracy";
/// Split whose problems may not decide when training ends.
const TEST: &str = "test";

/// A pass rate of sampled episodes at which training ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAt {
    /// Share of the episodes that must be right.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub accuracy: f64,
    /// Steps between measurements; the input model and the last step are measured as well.
    #[serde(default = "every")]
    #[schemars(range(min = 1))]
    pub every: u64,
    /// Episodes of a measurement, in equal numbers per level; problems repeat where there are fewer.
    #[serde(default = "episodes")]
    #[schemars(range(min = 1))]
    pub episodes: usize,
    /// The environment that the problems are made for.
    #[serde(default = "default_environment")]
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// How episodes are sampled, and their limits.
    #[serde(default)]
    pub sampling: SamplingOptions,
    /// Action when training ends below the accuracy: `fail`, or `continue` with the weights of the last step.
    #[serde(default)]
    pub on_miss: OnMiss,
}

/// Action after a missed pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// The stage fails.
    #[default]
    Fail,
    /// The weights of the last step are the result.
    Continue,
}

fn every() -> u64 {
    20
}
fn episodes() -> usize {
    128
}

impl StopAt {
    /// Checks ranges. Pointers are into the config of `sft`.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.sampling.problems("/stop_at/sampling");
        if !(self.accuracy > 0.0 && self.accuracy <= 1.0) {
            let message = format!("the accuracy is {}, but must be above 0 and at most 1", self.accuracy);
            problems.push(OptionProblem::new("/stop_at/accuracy", message));
        }
        problems.extend(OptionProblem::out_of_range("/stop_at/every", self.every, 1..));
        problems.extend(OptionProblem::out_of_range("/stop_at/episodes", self.episodes, 1..));
        problems
    }

    /// Returns the error of a training that ended at the accuracy `reached`.
    fn missed(&self, reached: f64, steps: u64) -> Error {
        Error::data(format!(
            "`stop_at.accuracy` is {}, but after {steps} steps the model solves {reached:.3} of the episodes",
            self.accuracy
        ))
        .help(
            "allow more `steps`, lower `stop_at.accuracy`, or accept the last weights with `stop_at: {on_miss: \
             continue}`",
        )
    }
}

/// Returns contradictions between `stop_at` and the wired inputs.
pub fn problems_with(stop: Option<&StopAt>, inputs: &WiredInputs) -> Vec<OptionProblem> {
    let wired = inputs.get(PORT).is_some_and(|n| *n > 0);
    match stop {
        None if wired => {
            let problem = OptionProblem::new(format!("/{PORT}"), "`problems` is wired, but `stop_at` is not set");
            vec![problem.help("set `stop_at: {accuracy: …}`, or leave the input out")]
        }
        Some(_) if !wired => {
            let problem = OptionProblem::new("/stop_at", "`stop_at` has no problems to play");
            vec![problem.help("wire the input `problems` to problems outside the test")]
        }
        Some(stop) => problems::environment_mismatches(&stop.environment, inputs, &[PORT])
            .into_iter()
            .map(|problem| problem.with_prefix("/stop_at"))
            .collect(),
        None => Vec::new(),
    }
}

/// Plays the measuring episodes during a training.
pub struct StopEvaluator {
    options: StopAt,
    /// Tokenizer and template; the weights are the trainer's.
    folder: ModelFolder,
    environment: Box<dyn Environment>,
    sampler: Box<dyn Sampler>,
    problems: Vec<Problem>,
    chance: Chance,
    host: Arc<ToolHost>,
}

impl StopEvaluator {
    /// Opens environment, problems and sampler, while `policy` still holds its weights.
    ///
    /// Errors: data and invalid, naming the input: no problem, problems of the split `test` or of another environment.
    pub fn open(
        options: &StopAt,
        (slot, parts): (&EnvironmentSlot, &TrainParts),
        (template, seed): (&TemplateOptions, u64),
        policy: &PolicyModel,
        context: &StageContext,
    ) -> Result<Self> {
        let problems = problems::read(context.input(PORT)?, PORT)?;
        problems::expect_environment(&options.environment, &problems, PORT)?;
        if let Some(tested) = problems.iter().find(|p| p.split == TEST) {
            let message = format!("input `{PORT}` holds `{}` of the split `{TEST}`", tested.id);
            return Err(Error::invalid(message)
                .help("wire problems of another split: the test must not decide when training ends"));
        }
        let problems = equal_shares(problems, options.episodes);
        if problems.is_empty() {
            return Err(Error::data(format!("input `{PORT}` has no rows")).help("wire at least one problem"));
        }
        let host = ToolHost::of_stage(context)?;
        let mut folder = policy.folder.clone();
        folder.weights.clear();
        let native_environment = native::environment(&parts.envs, &options.environment, template, &mut folder, &host)?;
        let environment = native_environment.map_or_else(|| slot.build(&host), Ok)?;
        let sampler = policy.sampler(context.cpus)?;
        let chance = Chance::new(seed).child("sft stop", &[]);
        Ok(Self { options: options.clone(), folder, environment, sampler, problems, chance, host })
    }

    /// Returns whether the accuracy is measured after this step of `total`.
    pub fn is_due(&self, step: u64, total: u64) -> bool {
        step.is_multiple_of(self.options.every) || step == total
    }

    /// Plays the measuring episodes and returns the share of correct ones under the trainer's weights. Infrastructure
    /// failures are left out. Draws are the same in every measurement.
    pub fn measure(&mut self, trainer: &ModelTrainer, step: u64, context: &StageContext) -> Result<f64> {
        self.sampler.set_weights(&trainer.weights()?, u32::try_from(step).unwrap_or(u32::MAX))?;
        let sampling = &self.options.sampling;
        let mut driver = RolloutDriver {
            sampler: &mut *self.sampler,
            model: &self.folder,
            environment: &*self.environment,
            limits: EpisodeLimits {
                turn_tokens: sampling.max_turn_tokens,
                episode_tokens: sampling.max_episode_tokens,
                running: sampling.max_running,
                kv_memory: kv_memory(sampling.kv_memory.as_deref()),
                tool_wait: ToolWait::Trajectory,
            },
            sampling: sampling.distribution(),
            chance: self.chance,
            name: format!("sft/{step}"),
            cancel: &context.cancel,
        };
        let count = self.problems.len();
        let jobs: Vec<EpisodeJob> =
            (0..self.options.episodes).map(|i| EpisodeJob::root(i % count, (i / count) as u32)).collect();
        let played = driver.run(&self.problems, &jobs)?;
        let counted: Vec<bool> = played.iter().filter(|one| !one.failed()).map(|one| one.correct).collect();
        if counted.is_empty() {
            return Err(Error::retryable("every episode of `stop_at` failed in the infrastructure"));
        }
        Ok(counted.iter().filter(|correct| **correct).count() as f64 / counted.len() as f64)
    }

    /// Returns whether an accuracy ends the training.
    pub fn is_reached(&self, accuracy: f64) -> bool {
        accuracy >= self.options.accuracy
    }

    /// Reports the usage of the tools and the metric of the accuracy at the end of training. Errors: data, if the
    /// accuracy is too low and `on_miss` is to fail.
    pub fn finish(self, accuracy: Option<f64>, steps: u64, context: &mut StageContext) -> Result<()> {
        self.host.report(context);
        let reached = accuracy.unwrap_or(0.0);
        if reached < self.options.accuracy && self.options.on_miss == OnMiss::Fail {
            return Err(self.options.missed(reached, steps));
        }
        context.metric(METRIC, reached);
        Ok(())
    }
}
