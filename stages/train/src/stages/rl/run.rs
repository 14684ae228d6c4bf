//! Runs the loop of the stage: rollouts from a source, one update on them, validation, a resume point.
//!
//! [`super::sources`] provides rollouts, [`super::collect`] builds a batch, [`super::learn`] learns from it, and the
//! parts contain the formulas. The state that later steps depend on is in [`super::state`] and in every resume point,
//! so a killed synchronous run resumes to the same bytes.

pub use super::state::{RlRun, RlState};

use super::config::RlConfig;
use super::critic::Critic;
use super::parts::RlParts;
use super::sources::{AsyncSource, RecordedSource, RolloutSource, SyncSource};
use super::state::RlProgress;
use super::{pool, validate};
use crate::model::PolicyModel;
use crate::optimize::{ModelTrainer, OptimizerOptions, TrainableParams, TrainingMethod};
use crate::rewards::Rewards;
use crate::spans::step_span;
use std::collections::VecDeque;
use trainyard_api::StageContext;
use trainyard_api::checkpoint;
use trainyard_core::{Chance, MetricInfo, Result};
use trainyard_envs::Environment;
use trainyard_lm::backend::{Parameters, TrainableParameters};
use trainyard_tables::{Problem, Trajectory};

/// Environment with the problems of training and validation.
pub struct RlData {
    pub environment: Box<dyn Environment>,
    pub problems: Vec<Problem>,
    pub validation: Vec<Problem>,
    pub demonstrations: Vec<Trajectory>,
}

/// Result of the stage.
pub struct RlOutcome {
    pub weights: Parameters,
    pub state: RlState,
    pub rollouts: Vec<Trajectory>,
}

impl<'a> RlRun<'a> {
    pub fn new(
        config: &'a RlConfig,
        (policy, learns): (&'a PolicyModel, TrainableParameters),
        episodes: RlData,
        declared: Vec<MetricInfo>,
        context: &StageContext,
    ) -> Result<Self> {
        let positions = policy.folder.config.positions();
        let RlData { environment, problems, validation, demonstrations } = episodes;
        Ok(Self {
            config,
            policy,
            learns,
            environment,
            validation: validate::equal_shares(validation, config.validate_problems),
            pool: pool::pool(&problems, &demonstrations, &policy.folder.chat, positions)?,
            problems,
            chance: Chance::new(config.seed).child("rl", &[]),
            cancel: context.cancel.clone(),
            threads: context.cpus,
            declared,
        })
    }

    /// Runs all steps and returns the kept weights. `parts` and `rewards` must be new; `record` = the rollouts of an
    /// asynchronous run to repeat.
    pub fn run(
        self,
        parts: RlParts,
        rewards: Rewards,
        record: Option<&[Trajectory]>,
        context: &StageContext,
    ) -> Result<RlOutcome> {
        // The rollouts in flight at a step of a repeated run began before that step, so a repeated run always starts
        // from its beginning.
        let resumes = record.is_none();
        let mut progress = self.start(parts, rewards, resumes, context)?;
        if progress.state.step == 0 {
            self.validate(context, &mut progress)?;
        }
        std::thread::scope(|scope| -> Result<()> {
            let mut source: Box<dyn RolloutSource + '_> = match (record, &self.config.rollout.asynchronous) {
                (Some(record), _) => Box::new(RecordedSource::new(&self, record, &progress)?),
                (None, Some(options)) => Box::new(AsyncSource::start(&self, options, &progress, scope)?),
                (None, None) => Box::new(SyncSource),
            };
            while progress.state.step < self.config.steps {
                let _span = step_span(progress.state.step);
                context.stop_if_cancelled()?;
                let collected = source.next(&self, &mut progress)?;
                self.learn(context, &mut progress, collected)?;
                source.learned(&progress)?;
                self.after_step(resumes, context, &mut progress)?;
            }
            Ok(())
        })?;
        let weights = match progress.best {
            Some(best) => best,
            None => progress.trainer.weights()?,
        };
        Ok(RlOutcome { weights, state: progress.state, rollouts: progress.rollouts.into() })
    }

    /// Creates the progress from the newest checkpoint if `resumes`, or from the input model.
    fn start(&self, parts: RlParts, rewards: Rewards, resumes: bool, context: &StageContext) -> Result<RlProgress> {
        let (config, policy) = (self.config, self.policy);
        let settle = |options: &OptimizerOptions, method| options.settle(method, &policy.folder, self.learns, context);
        let learned = TrainableParams { learns: self.learns, seed: config.seed };
        let optimizer = settle(&config.optimizer, TrainingMethod::Rl);
        let trainer = |total, learned| ModelTrainer::new(&*policy.backend, &policy.folder, &optimizer, total, learned);
        let needs = parts.needs();
        let updates = config.updates();
        let critic = || {
            let optimizer = settle(&config.critic.optimizer, TrainingMethod::Critic);
            Critic::new(policy, &optimizer, updates, config.micro_batch_tokens, learned)
        };
        let fixed = TrainableParams { learns: TrainableParameters::Nothing, ..learned };
        let mut progress = RlProgress {
            state: RlState::default(),
            rewards,
            trainer: trainer(updates, learned)?,
            sampler: policy.sampler(self.threads)?,
            reference: if needs.reference { Some(trainer(1, fixed)?) } else { None },
            critic: if needs.values { Some(critic()?) } else { None },
            parts,
            best: None,
            rollouts: VecDeque::new(),
            versions_are_steps: config.rollout.asynchronous.is_some(),
        };
        if resumes && let Some((state, folder)) = checkpoint::latest::<RlState>(context)? {
            state.expect_tools(&self.environment.tools())?;
            progress.load(state, &folder)?;
        }
        Ok(progress)
    }

    /// Validates, reports progress and saves a resume point after an update, each if it is due.
    fn after_step(&self, resumes: bool, context: &StageContext, progress: &mut RlProgress) -> Result<()> {
        let step = progress.state.step;
        let last = step == self.config.steps;
        let due = |every: u64| every > 0 && step.is_multiple_of(every);
        if last || due(self.config.validation_interval()) {
            self.validate(context, progress)?;
        }
        let newest = |name: &'static str| progress.state.curves.last(name).map(|value| (name, value));
        let shown = newest("validation_accuracy").or_else(|| newest("reward_mean"));
        context.progress(step, self.config.steps, "steps", shown);
        if resumes && !last && due(self.config.checkpoint_every) {
            progress.state.parts = progress.parts.save();
            progress.state.rewards = progress.rewards.save();
            progress.state.tools = Some(self.environment.tools());
            let state = progress.state.clone();
            checkpoint::save(context, step, &state, |folder| progress.save(folder))?;
        }
        Ok(())
    }

    /// Measures the greedy pass rate on the validation problems, and keeps the weights if it is the best so far.
    fn validate(&self, context: &StageContext, progress: &mut RlProgress) -> Result<()> {
        if self.validation.is_empty() {
            return Ok(());
        }
        progress.refresh_sampler()?;
        let step = progress.state.step;
        let rates = self.greedy(&mut *progress.sampler)?;
        for (name, value) in &rates.metrics() {
            progress.state.curves.point(context, name, step, *value)?;
        }
        // Among equally good weights the later ones are kept, because they were trained on more rollouts.
        if progress.state.best.is_none_or(|(_, best)| rates.accuracy >= best) {
            progress.state.best = Some((step, rates.accuracy));
            progress.best = Some(progress.trainer.weights()?);
        }
        Ok(())
    }
}
