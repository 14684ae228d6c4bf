//! The loop: sample, score, filter, assign, update; validate and keep the best; checkpoint at step boundaries.

use super::collect::{Collected, Tally};
use super::config::Config;
use super::parts::Parts;
use super::update::{Sample, Update, UpdateReport};
use crate::checkpoint;
use crate::curves::Curves;
use crate::model::Policy;
use crate::optimize::Trainer;
use crate::world::{Rewards, World};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use trainyard_api::{CancelToken, StageContext};
use trainyard_core::{Chance, Result};
use trainyard_envs::Environment;
use trainyard_learn::{Batch, Grid, PassRates, Pool, PoolProblem, Rollout};
use trainyard_lm::{Generator, Weights};
use trainyard_tables::{Problem, Trajectory, read_trajectories, write_trajectories};

const ROLLOUTS: &str = "rollouts.parquet";
const BEST: &str = "best.safetensors";

/// What stays the same during the stage.
pub struct Run<'a> {
    pub config: &'a Config,
    pub policy: &'a Policy,
    pub environment: Box<dyn Environment>,
    pub rewards: Rewards,
    pub problems: Vec<Problem>,
    pub validation: Vec<Problem>,
    pub pool: Pool,
    pub chance: Chance,
    pub cancel: CancelToken,
    pub threads: usize,
}

/// What a checkpoint holds besides weights, moments and kept rollouts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    pub rates: PassRates,
    pub parts: Value,
    pub curves: Curves,
    /// Step and greedy pass rate of the best validation so far.
    pub best: Option<(u64, f64)>,
    pub failures: u64,
    /// Steps whose filters left nothing to learn from.
    pub empty_steps: u64,
}

/// What the stage ends with.
pub struct Outcome {
    pub weights: Weights,
    pub state: State,
    pub rollouts: Vec<Trajectory>,
}

/// What changes during the stage.
struct Progress {
    state: State,
    parts: Parts,
    trainer: Trainer,
    generator: Generator,
    reference: Option<Trainer>,
    best: Option<Weights>,
    rollouts: VecDeque<Trajectory>,
}

impl<'a> Run<'a> {
    pub fn new(
        config: &'a Config,
        policy: &'a Policy,
        problems: Vec<Problem>,
        validation: Vec<Problem>,
        context: &StageContext,
    ) -> Result<Self> {
        let world = World::new(context.cpus);
        let pool = Pool {
            problems: problems
                .iter()
                .map(|p| PoolProblem { id: p.id.clone(), level: p.level, environment: p.environment.clone() })
                .collect(),
        };
        Ok(Self {
            config,
            policy,
            environment: world.environment(&config.environment)?,
            rewards: world.rewards(&config.rewards)?,
            validation: super::validate::equal_shares(validation, config.validation.problems),
            problems,
            pool,
            chance: Chance::new(config.seed).child("rl", &[]),
            cancel: context.cancel.clone(),
            threads: context.cpus,
        })
    }

    pub fn run(mut self, context: &StageContext) -> Result<Outcome> {
        let mut progress = self.start(context)?;
        if progress.state.step == 0 {
            self.validate(context, &mut progress)?;
        }
        while progress.state.step < self.config.steps {
            context.stop_if_cancelled()?;
            self.step(context, &mut progress)?;
            let step = progress.state.step;
            let every = self.config.validation.every;
            if step == self.config.steps || (every > 0 && step % every == 0) {
                self.validate(context, &mut progress)?;
            }
            let shown = progress.state.curves.last("reward_mean").map(|r| ("reward_mean", r));
            context.progress(step, self.config.steps, "steps", shown);
            if self.config.checkpoint_every > 0 && step % self.config.checkpoint_every == 0 && step < self.config.steps {
                progress.state.parts = progress.parts.save();
                checkpoint::save(context, step, &progress.state, |folder| progress.save(folder))?;
            }
        }
        let weights = match progress.best {
            Some(best) => best,
            None => progress.trainer.decoder.weights()?,
        };
        Ok(Outcome { weights, state: progress.state, rollouts: progress.rollouts.into() })
    }

    /// From the newest checkpoint, or from the input model.
    fn start(&self, context: &StageContext) -> Result<Progress> {
        let folder = &self.policy.folder;
        let trainer = Trainer::new(&folder.config, folder.weights.clone(), &self.config.optimizer, self.config.updates())?;
        let parts = Parts::build(self.config)?;
        let reference = if parts.needs().reference {
            Some(Trainer::new(&folder.config, folder.weights.clone(), &self.config.optimizer, 1)?)
        } else {
            None
        };
        let mut progress = Progress {
            state: State::default(),
            parts,
            trainer,
            generator: Generator::new(&folder.config, &folder.weights, self.threads)?,
            reference,
            best: None,
            rollouts: VecDeque::new(),
        };
        if let Some((state, at)) = checkpoint::latest::<State>(context)? {
            progress.load(state, &at)?;
        }
        Ok(progress)
    }

    fn step(&mut self, context: &StageContext, progress: &mut Progress) -> Result<()> {
        let step = progress.state.step;
        progress.generator.update(&progress.trainer.decoder.weights()?, u32::try_from(progress.trainer.steps()).unwrap_or(u32::MAX))?;
        let mut collected = self.collect(step, &mut progress.parts, &mut progress.state.rates, &mut progress.generator)?;
        let advantages = assign(&mut progress.parts, &collected.batch);
        record_advantages(&mut collected, &advantages);
        let samples = samples(&mut progress.parts, &collected.batch, &advantages, step, &self.chance.child("replay", &[step]));
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
        update.run(&mut progress.trainer, samples)
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
        for (name, value) in progress.parts.curriculum.metrics() {
            curves.point(context, name, step, value)?;
        }
        curves.point(context, "learning_rate", step, rate)
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
        self.rollouts = read_trajectories(&folder.join(ROLLOUTS))?.into();
        if state.best.is_some() {
            self.best = Some(trainyard_lm::checkpoint::load_tensors(&folder.join(BEST))?);
        }
        self.state = state;
        Ok(())
    }
}

/// Advantage part, then modulations.
fn assign(parts: &mut Parts, batch: &Batch) -> Grid {
    let mut advantages = parts.advantage.assign(batch);
    for modulation in &mut parts.modulations {
        modulation.apply(batch, &mut advantages);
    }
    advantages
}

/// The fresh rollouts with their advantages, then those that the replay part draws.
fn samples(parts: &mut Parts, batch: &Batch, advantages: &Grid, step: u64, chance: &Chance) -> Vec<Sample> {
    parts.replay.offer(batch, advantages);
    let fresh = batch.rollouts().zip(advantages).map(|(r, a)| sample(r, a, 1.0));
    let again = parts.replay.draw(step, chance);
    fresh.chain(again.iter().map(|r| sample(&r.rollout, &r.advantages, r.weight))).collect()
}

fn sample(rollout: &Rollout, advantages: &[f64], weight: f64) -> Sample {
    Sample {
        tokens: rollout.tokens.clone(),
        mask: rollout.mask.clone(),
        behavior: rollout.old_logprobs.clone(),
        advantages: advantages.to_vec(),
        weight,
        group: rollout.group,
        reward: rollout.reward,
    }
}

fn record_advantages(collected: &mut Collected, advantages: &Grid) {
    for (&place, row) in collected.places.iter().zip(advantages) {
        collected.records[place].advantages = Some(row.iter().map(|a| *a as f32).collect());
    }
}
