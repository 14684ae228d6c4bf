//! The loop: sample, score, filter, assign, update; validate and keep the best; checkpoint at step boundaries.
//!
//! Why so: what later steps depend on is [`State`] beside weights, moments and kept rollouts, and all of it goes into a resume point, so a
//! killed stage ends in the same bytes. The order of a step (`docs/design/0005`) stands here; how a batch comes together stands in
//! [`super::collect`], what becomes of it in [`super::update`], the formulas in the parts. Refuses: resume points inside of a step, and any
//! at all for a run that repeats a record.

use super::collect::Collected;
use super::config::Config;
use super::critic::Critic;
use super::effects;
use super::parts::Parts;
use super::pool;
use super::report::all_declared;
use super::tally::Tally;
use super::update::{Sample, Update, UpdateReport};
use crate::checkpoint;
use crate::curves::Curves;
use crate::model::Policy;
use crate::optimize::Trainer;
use crate::rewards::Rewards;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use trainyard_api::{CancelToken, StageContext};
use trainyard_core::{Chance, Metric, Result};
use trainyard_envs::Environment;
use trainyard_learn::{Batch, Grid, Group, PassRates, Pool, Replayed, Rollout};
use trainyard_lm::{Generator, Weights};
use trainyard_tables::{Problem, Trajectory, read_trajectories, write_trajectories};

const ROLLOUTS: &str = "rollouts.parquet";
const BEST: &str = "best.safetensors";

/// What stays the same during the stage.
pub struct Run<'a> {
    pub config: &'a Config,
    pub policy: &'a Policy,
    pub environment: Arc<dyn Environment>,
    pub rewards: Rewards,
    pub problems: Arc<Vec<Problem>>,
    pub validation: Vec<Problem>,
    pub pool: Pool,
    pub chance: Chance,
    pub cancel: CancelToken,
    pub threads: usize,
    /// What the stage reports.
    pub declared: Vec<Metric>,
    /// A recorded run is repeated.
    repeats: bool,
}

/// What poses the problems and what scores the episodes.
pub struct Episodes {
    pub environment: Arc<dyn Environment>,
    pub rewards: Rewards,
    /// What the stage reports.
    pub declared: Vec<Metric>,
}

/// What a checkpoint holds besides weights, moments and kept rollouts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    pub rates: PassRates,
    pub parts: Value,
    /// State of the rewards.
    pub rewards: Value,
    pub curves: Curves,
    /// Step and greedy pass rate of the best validation so far.
    pub best: Option<(u64, f64)>,
    pub failures: u64,
    /// Steps whose filters left nothing to learn from.
    pub empty_steps: u64,
    /// Asynchronous rollouts: groups started so far.
    pub started_groups: u32,
}

/// What the stage ends with.
pub struct Outcome {
    pub weights: Weights,
    pub state: State,
    pub rollouts: Vec<Trajectory>,
}

/// What changes during the stage.
pub(super) struct Progress {
    pub state: State,
    pub parts: Parts,
    pub trainer: Trainer,
    pub generator: Generator,
    reference: Option<Trainer>,
    critic: Option<Critic>,
    best: Option<Weights>,
    rollouts: VecDeque<Trajectory>,
}

impl<'a> Run<'a> {
    pub fn new(
        config: &'a Config,
        policy: &'a Policy,
        episodes: Episodes,
        problems: Vec<Problem>,
        validation: Vec<Problem>,
        demonstrations: &[Trajectory],
        context: &StageContext,
    ) -> Result<Self> {
        let pool =
            pool::pool(&problems, demonstrations, &policy.folder.chat, policy.folder.config.max_position_embeddings)?;
        Ok(Self {
            config,
            policy,
            environment: episodes.environment,
            rewards: episodes.rewards,
            validation: super::validate::equal_shares(validation, config.validate_problems),
            problems: Arc::new(problems),
            pool,
            chance: Chance::new(config.seed).child("rl", &[]),
            cancel: context.cancel.clone(),
            threads: context.cpus,
            declared: episodes.declared,
            repeats: false,
        })
    }

    /// `record` = the rollouts of an asynchronous run that is to be repeated.
    pub fn run(mut self, parts: Parts, record: Option<&[Trajectory]>, context: &StageContext) -> Result<Outcome> {
        self.repeats = record.is_some();
        let mut progress = self.start(parts, context)?;
        if progress.state.step == 0 {
            self.validate(context, &mut progress)?;
        }
        match (&self.config.rollout.asynchronous, record) {
            (_, Some(record)) => self.run_recorded(record, context, &mut progress)?,
            (Some(options), None) => self.run_asynchronous(options, context, &mut progress)?,
            (None, None) => self.run_synchronous(context, &mut progress)?,
        }
        let weights = match progress.best {
            Some(best) => best,
            None => progress.trainer.decoder.weights()?,
        };
        Ok(Outcome { weights, state: progress.state, rollouts: progress.rollouts.into() })
    }
    fn run_synchronous(&mut self, context: &StageContext, progress: &mut Progress) -> Result<()> {
        while progress.state.step < self.config.steps {
            context.stop_if_cancelled()?;
            let version = u32::try_from(progress.trainer.steps()).unwrap_or(u32::MAX);
            progress.generator.update(&progress.trainer.decoder.weights()?, version)?;
            let Progress { parts, state, generator, .. } = progress;
            let collected = self.collect(state.step, parts, &mut state.rates, generator)?;
            self.learn(context, progress, collected)?;
            self.after_step(context, progress)?;
        }
        Ok(())
    }
    /// What follows a step: validation, progress, a resume point.
    pub(super) fn after_step(&mut self, context: &StageContext, progress: &mut Progress) -> Result<()> {
        let (step, every) = (progress.state.step, self.config.validate_every);
        if step == self.config.steps || (every > 0 && step % every == 0) {
            self.validate(context, progress)?;
        }
        let shown = progress.state.curves.last("reward_mean").map(|r| ("reward_mean", r));
        context.progress(step, self.config.steps, "steps", shown);
        // A run that is repeated starts from its beginning: what is in flight at a step is older than the step.
        let every = if self.repeats { 0 } else { self.config.checkpoint_every };
        if every > 0 && step % every == 0 && step < self.config.steps {
            progress.state.parts = progress.parts.save();
            progress.state.rewards = self.rewards.save();
            checkpoint::save(context, step, &progress.state, |folder| progress.save(folder))?;
        }
        Ok(())
    }

    /// From the newest checkpoint, or from the input model.
    fn start(&mut self, parts: Parts, context: &StageContext) -> Result<Progress> {
        let folder = &self.policy.folder;
        let trainer =
            Trainer::new(&folder.config, folder.weights.clone(), &self.config.optimizer, self.config.updates())?;
        let reference = if parts.needs().reference {
            Some(Trainer::new(&folder.config, folder.weights.clone(), &self.config.optimizer, 1)?)
        } else {
            None
        };
        let critic = if parts.needs().values {
            let tokens = self.config.micro_batch_tokens;
            Some(Critic::new(folder, &self.config.critic.optimizer, self.config.updates(), tokens)?)
        } else {
            None
        };
        let mut progress = Progress {
            critic,
            state: State::default(),
            parts,
            trainer,
            generator: Generator::new(&folder.config, &folder.weights, self.threads)?,
            reference,
            best: None,
            rollouts: VecDeque::new(),
        };
        if !self.repeats
            && let Some((state, at)) = checkpoint::latest::<State>(context)?
        {
            self.rewards.load(&state.rewards)?;
            progress.load(state, &at)?;
        }
        Ok(progress)
    }

    /// One update on what was collected.
    pub(super) fn learn(
        &mut self,
        context: &StageContext,
        progress: &mut Progress,
        mut collected: Collected,
    ) -> Result<()> {
        let step = progress.state.step;
        if let Some(critic) = &progress.critic {
            judge(critic, &mut collected.batch)?;
        }
        let assigned = assign(&mut progress.parts, &collected.batch);
        record_advantages(&mut collected, &assigned.advantages);
        let samples =
            samples(&mut progress.parts, &collected.batch, &assigned, step, &self.chance.child("replay", &[step]));
        let at = self.progress(step);
        progress.parts.terms.iter_mut().for_each(|t| t.begin(&collected.batch, at));
        for (name, value) in effects::metrics(&collected.batch, &assigned.advantages) {
            progress.state.curves.point(context, name, step, value)?;
        }
        let rate = progress.trainer.rate();
        let report = self.update(step, progress, &samples)?;
        progress.state.empty_steps += u64::from(report.optimizer_steps == 0);
        progress.state.failures += collected.tally.failures;
        self.measure(context, progress, &collected.tally, collected.batch.groups.len(), &report, rate)?;
        progress.keep(collected.records, self.config.keep_rollouts);
        progress.state.step += 1;
        Ok(())
    }

    fn update(&self, step: u64, progress: &mut Progress, samples: &[Sample]) -> Result<UpdateReport> {
        let update = Update {
            terms: &progress.parts.terms,
            prefixes: &progress.parts.prefixes.terms,
            correction: &*progress.parts.correction,
            aggregate: self.config.loss.aggregate,
            horizon: self.config.loss.horizon,
            epochs: self.config.epochs,
            minibatches: self.config.minibatches,
            micro_batch_tokens: self.config.micro_batch_tokens,
            temperature: self.config.rollout.temperature,
            reference: progress.reference.as_ref(),
            chance: self.chance,
            step,
        };
        update.run(&mut progress.trainer, progress.critic.as_mut(), samples)
    }

    /// Points of all curves for this step.
    fn measure(
        &self,
        context: &StageContext,
        progress: &mut Progress,
        tally: &Tally,
        kept: usize,
        report: &UpdateReport,
        rate: f64,
    ) -> Result<()> {
        let step = progress.state.step;
        let curves = &mut progress.state.curves;
        for (name, value) in tally.metrics(kept) {
            curves.point(context, &name, step, value)?;
        }
        for (name, value) in &report.metrics {
            curves.point(context, name, step, *value)?;
        }
        for (name, value) in progress.parts.metrics() {
            curves.point(context, &name, step, value)?;
        }
        curves.point(context, "learning_rate", step, rate)?;
        if step == 0 { all_declared(&self.declared, &progress.state) } else { Ok(()) }
    }

    /// Greedy pass rate on the validation problems; the best weights are kept.
    fn validate(&self, context: &StageContext, progress: &mut Progress) -> Result<()> {
        if self.validation.is_empty() {
            return Ok(());
        }
        let weights = progress.trainer.decoder.weights()?;
        progress.generator.update(&weights, u32::try_from(progress.trainer.steps()).unwrap_or(u32::MAX))?;
        let step = progress.state.step;
        let rates = self.greedy(&mut progress.generator)?;
        for (name, value) in &rates.metrics() {
            progress.state.curves.point(context, name, step, *value)?;
        }
        // A tie goes to the later weights: they saw more.
        if progress.state.best.is_none_or(|(_, best)| rates.accuracy >= best) {
            progress.state.best = Some((step, rates.accuracy));
            progress.best = Some(weights);
        }
        Ok(())
    }
}

impl Progress {
    fn keep(&mut self, records: Vec<Trajectory>, most: usize) {
        self.rollouts.extend(records);
        while self.rollouts.len() > most {
            self.rollouts.pop_front();
        }
    }
    fn save(&self, folder: &Path) -> Result<()> {
        self.trainer.save(folder)?;
        if let Some(critic) = &self.critic {
            critic.save(folder)?;
        }
        let rows: Vec<Trajectory> = self.rollouts.iter().cloned().collect();
        write_trajectories(&folder.join(ROLLOUTS), &rows)?;
        match &self.best {
            Some(best) => trainyard_lm::checkpoint::save_tensors(&folder.join(BEST), best),
            None => Ok(()),
        }
    }
    fn load(&mut self, state: State, folder: &Path) -> Result<()> {
        self.parts.load(&state.parts)?;
        self.trainer.load(folder)?;
        if let Some(critic) = &mut self.critic {
            critic.load(folder)?;
        }
        self.rollouts = read_trajectories(&folder.join(ROLLOUTS))?.into();
        if state.best.is_some() {
            self.best = Some(trainyard_lm::checkpoint::load_tensors(&folder.join(BEST))?);
        }
        self.state = state;
        Ok(())
    }
}

/// Advantages after all modulations, and the targets of the value model before them.
struct Assigned {
    advantages: Grid,
    returns: Option<Grid>,
}

/// Advantage part, then modulations.
fn assign(parts: &mut Parts, batch: &Batch) -> Assigned {
    let mut advantages = parts.advantage.assign(batch);
    let returns = parts.advantage.returns(batch, &advantages);
    for modulation in &mut parts.modulations {
        modulation.apply(batch, &mut advantages);
    }
    Assigned { advantages, returns }
}

/// Sets the values of the whole batch.
fn judge(critic: &Critic, batch: &mut Batch) -> Result<()> {
    let tokens: Vec<&[u32]> = batch.rollouts().map(|r| r.tokens.as_slice()).collect();
    let masks: Vec<&[bool]> = batch.rollouts().map(|r| r.mask.as_slice()).collect();
    let values = critic.values(&tokens, &masks)?;
    for (rollout, values) in batch.groups.iter_mut().flat_map(|g| &mut g.rollouts).zip(values) {
        rollout.values = Some(values);
    }
    Ok(())
}

/// The fresh rollouts with their advantages, then those that the replay part draws. A replayed rollout is a group of its own.
fn samples(parts: &mut Parts, batch: &Batch, assigned: &Assigned, step: u64, chance: &Chance) -> Vec<Sample> {
    parts.replay.offer(batch, &assigned.advantages);
    let again = parts.replay.draw(step, chance);
    let targets = if assigned.returns.is_some() { returns_of(parts, step, &again) } else { None };
    let pass_rates: Vec<f64> = batch.groups.iter().map(|g| pass_rate(&g.rollouts)).collect();
    let mut list: Vec<Sample> = batch
        .rollouts()
        .zip(&assigned.advantages)
        .map(|(r, a)| sample(r, a, 1.0, r.group, pass_rates[r.group]))
        .collect();
    for (sample, returns) in list.iter_mut().zip(assigned.returns.iter().flatten()) {
        sample.returns = Some(returns.clone());
    }
    list.extend(again.iter().enumerate().map(|(i, r)| {
        let own = f64::from(u8::from(r.rollout.correct));
        let returns = targets.as_ref().map(|grid| grid[i].clone());
        Sample { returns, ..sample(&r.rollout, &r.advantages, r.weight, batch.groups.len() + i, own) }
    }));
    list
}

/// Targets of the value model for replayed rollouts, by the values that they were sampled with.
fn returns_of(parts: &mut Parts, step: u64, again: &[Replayed]) -> Option<Grid> {
    let group =
        |r: &Replayed| Group { problem: r.rollout.problem, level: r.rollout.level, rollouts: vec![r.rollout.clone()] };
    let batch = Batch { step, groups: again.iter().map(group).collect() };
    let advantages = parts.advantage.assign(&batch);
    parts.advantage.returns(&batch, &advantages)
}

fn pass_rate(group: &[Rollout]) -> f64 {
    group.iter().filter(|r| r.correct).count() as f64 / group.len().max(1) as f64
}

fn sample(rollout: &Rollout, advantages: &[f64], weight: f64, group: usize, pass_rate: f64) -> Sample {
    Sample {
        tokens: rollout.tokens.clone(),
        mask: rollout.mask.clone(),
        behavior: rollout.old_logprobs.clone(),
        advantages: advantages.to_vec(),
        weight,
        group,
        reward: rollout.reward,
        correct: rollout.correct,
        pass_rate,
        turns: rollout.turns.iter().map(|t| (t.first, t.end)).collect(),
        values: rollout.values.clone(),
        returns: None,
    }
}

fn record_advantages(collected: &mut Collected, advantages: &Grid) {
    for (&place, row) in collected.places.iter().zip(advantages) {
        collected.records[place].advantages = Some(row.iter().map(|a| *a as f32).collect());
    }
}
