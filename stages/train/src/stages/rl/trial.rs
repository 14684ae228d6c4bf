//! Runs a trial of the stage: the first rollouts of its first step, scored, without an update.
//!
//! Curriculum, strategy and draws are those of a run, so a synchronous run samples the same episodes again. Rewards
//! that compare the members of a group see only the sampled members.

use super::collect::job;
use super::config::RlConfig;
use super::inputs::RlInputs;
use super::parts::RlParts;
use super::run::RlRun;
use crate::rewards::{Rewards, ScoredGroup};
use crate::rollouts::EpisodeJob;
use std::collections::BTreeMap;
use trainyard_api::{Component, StageContext, Trial, TrialEpisode};
use trainyard_core::Result;
use trainyard_learn::{PassRates, Rollout};

/// Runs and scores the requested episodes, with new parts and rewards.
pub(super) fn trial(
    config: &RlConfig,
    opened: RlInputs,
    (mut parts, mut rewards): (RlParts, Rewards),
    trial: &Trial,
    context: &StageContext,
) -> Result<Vec<TrialEpisode>> {
    let RlInputs { policy, learns, episodes, host: _host } = opened;
    let run = RlRun::new(config, (&policy, learns), episodes, Vec::new(), context)?;
    let rollouts = run.first(&mut parts, trial.episodes)?;
    run.scored(rollouts, &mut rewards)
}

impl RlRun<'_> {
    /// Samples the first `count` episodes of the first draw: one of every group, then the second of every group, and so
    /// on.
    fn first(&self, parts: &mut RlParts, count: usize) -> Result<Vec<Rollout>> {
        let (step, draw_number) = (0, 0);
        let chance = self.chance.child("step", &[step]).child("draw", &[draw_number]);
        let problems_per_step = self.config.problems_per_step;
        let rates = PassRates::default();
        let draw = parts.curriculum.next(step, problems_per_step, &self.pool, &rates, &self.curriculum_chance());
        let (size, place) = (self.config.rollout.group_size, self.place(step));
        let spawns = parts.strategy.start(&draw, &self.pool, size, place, &chance.child("start", &[]));
        let mut jobs: Vec<EpisodeJob> = spawns.into_iter().map(|spawn| job(&draw, spawn)).collect();
        jobs.sort_by_key(|job| (job.sample, job.group));
        jobs.truncate(count);
        let mut sampler = self.policy.sampler(self.threads)?;
        let mut driver = self.driver(&mut *sampler, &format!("rl/{step}/{draw_number}"), chance);
        driver.run(&self.problems, &jobs)
    }

    /// Scores the episodes of all groups together, except infrastructure failures. Keeps the order of the rollouts.
    fn scored(&self, mut rollouts: Vec<Rollout>, rewards: &mut Rewards) -> Result<Vec<TrialEpisode>> {
        let mut groups: BTreeMap<u32, ScoredGroup<'_>> = BTreeMap::new();
        for rollout in rollouts.iter_mut().filter(|rollout| !rollout.failed()) {
            let problem = &self.problems[rollout.problem];
            let new = || ScoredGroup { problem, members: Vec::new(), correct: Vec::new() };
            let group = groups.entry(rollout.trajectory.group).or_insert_with(new);
            group.correct.push(rollout.correct);
            group.members.push(&mut rollout.trajectory);
        }
        let mut groups: Vec<ScoredGroup<'_>> = groups.into_values().collect();
        rewards.score_groups(&mut groups, 0, self.config.steps)?;
        drop(groups);
        let tried = |rollout: Rollout| {
            let value = |name: &str| rollout.trajectory.rewards.get(name).copied();
            let component = |(name, weight): (&str, f64)| Component { name: name.into(), weight, value: value(name) };
            let components = rewards.weights().map(component).collect();
            let problem = self.problems[rollout.problem].clone();
            TrialEpisode { components, problem, correct: rollout.correct, trajectory: rollout.trajectory }
        };
        Ok(rollouts.into_iter().map(tried).collect())
    }
}
