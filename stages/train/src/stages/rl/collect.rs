//! Sampling one step's batch: problems, rollouts, rewards, filters, drawing again until the batch is full.

use super::parts::Parts;
use super::run::Run;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_learn::{Batch, Draw, Group, PassRates, Rollout, Verdict as Judgment};
use trainyard_lm::Generator;
use trainyard_tables::{Status, StopReason, Trajectory, Verdict};

use crate::rollouts::{Driver, Finished, Job, Limits, Start};

/// What one step sampled.
#[derive(Default)]
pub struct Collected {
    /// What enters the update.
    pub batch: Batch,
    /// The records of all sampled rollouts, in order, with rewards and verdicts.
    pub records: Vec<Trajectory>,
    /// Place in `records` of every rollout of the batch.
    pub places: Vec<usize>,
    pub tally: Tally,
}

/// Counts over all sampled rollouts of a step, before filters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    pub rollouts: u64,
    pub failures: u64,
    pub passes: u64,
    pub reward: f64,
    pub tool_calls: u64,
    pub tool_errors: u64,
    pub turns: u64,
    pub tokens: u64,
    pub entropy: f64,
    pub truncated: u64,
    pub void: u64,
    pub groups: u64,
    pub draws: u64,
    /// Level → (rollouts, passes).
    pub levels: BTreeMap<u32, (u64, u64)>,
    /// Reward component → (count, sum).
    pub components: BTreeMap<String, (u64, f64)>,
}

impl Run<'_> {
    /// Draws until `problems_per_step` groups survive the filters, or the draws are used up.
    pub(super) fn collect(&mut self, step: u64, parts: &mut Parts, rates: &mut PassRates, generator: &mut Generator) -> Result<Collected> {
        let mut all = Collected { batch: Batch { step, groups: Vec::new() }, ..Collected::default() };
        let chance = self.chance.child("step", &[step]);
        for draw_number in 0..self.config.resample.max_draws {
            let missing = self.config.problems_per_step.saturating_sub(all.batch.groups.len());
            if missing == 0 {
                break;
            }
            let draw = parts.curriculum.next(step, missing, &self.pool, rates, &chance.child("curriculum", &[draw_number]));
            if draw.problems.is_empty() {
                break;
            }
            let draw_chance = chance.child("draw", &[draw_number]);
            let finished = self.sample(step, draw_number, &draw, parts, generator, draw_chance)?;
            all.tally.draws += 1;
            self.absorb(finished, &draw, parts, rates, &mut all)?;
        }
        for (i, group) in all.batch.groups.iter_mut().enumerate() {
            group.rollouts.iter_mut().for_each(|r| r.group = i);
        }
        Ok(all)
    }

    fn sample(
        &mut self,
        step: u64,
        draw_number: u64,
        draw: &Draw,
        parts: &mut Parts,
        generator: &mut Generator,
        chance: trainyard_core::Chance,
    ) -> Result<Vec<Finished>> {
        let spawns = parts.strategy.start(draw, self.config.rollout.group_size, &chance);
        let jobs: Vec<Job> = spawns
            .iter()
            .map(|s| Job {
                problem: draw.problems[s.group],
                draw: draw.problems[s.group] as u64,
                group: s.group as u32,
                sample: s.sample,
                start: Start::Root,
            })
            .collect();
        let rollout = &self.config.rollout;
        let mut driver = Driver {
            generator,
            model: &self.policy.folder,
            environment: &*self.environment,
            limits: Limits {
                turn_tokens: rollout.max_turn_tokens,
                episode_tokens: rollout.max_episode_tokens,
                turns: draw.max_turns,
                running: rollout.max_running,
            },
            sampling: self.config.sampling().distribution(),
            chance,
            name: format!("rl/{step}/{draw_number}"),
            cancel: &self.cancel,
        };
        driver.run(&self.problems, &jobs)
    }

    /// Scores a draw, counts it, filters it, keeps what survives.
    fn absorb(
        &mut self,
        finished: Vec<Finished>,
        draw: &Draw,
        parts: &mut Parts,
        rates: &mut PassRates,
        all: &mut Collected,
    ) -> Result<()> {
        let mut groups: Vec<Group> =
            draw.problems.iter().map(|&p| Group { problem: p, level: self.problems[p].level, rollouts: Vec::new() }).collect();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        for mut one in finished {
            let g = one.trajectory.group as usize;
            let problem = draw.problems[g];
            all.tally.rollouts += 1;
            one.trajectory.model_digest = Some(self.policy.digest.clone());
            if one.failed() {
                all.tally.failures += 1;
                all.records.push(one.trajectory);
                continue;
            }
            self.rewards.score(&mut one.trajectory, &self.problems[problem]);
            all.tally.count(&one);
            rates.observe(one.trajectory.level, problem, one.correct);
            groups[g].rollouts.push(rollout(&one, problem));
            places[g].push(all.records.len());
            all.records.push(one.trajectory);
        }
        all.tally.groups += groups.len() as u64;
        filter(&mut groups, &mut places, parts, &mut all.records);
        for (group, places) in groups.into_iter().zip(places) {
            if group.rollouts.iter().any(|r| r.loss_tokens() > 0) {
                all.batch.groups.push(group);
                all.places.extend(places);
            }
        }
        Ok(())
    }
}

/// Applies the filters in order. A later one sees what the earlier ones left; every objection is recorded.
fn filter(groups: &mut [Group], places: &mut [Vec<usize>], parts: &mut Parts, records: &mut [Trajectory]) {
    for (n, part) in parts.filters.iter_mut().enumerate() {
        let verdicts = part.judge(groups);
        for ((group, places), verdicts) in groups.iter_mut().zip(places.iter_mut()).zip(verdicts) {
            let mut kept = Vec::with_capacity(group.rollouts.len());
            let mut kept_places = Vec::with_capacity(places.len());
            for ((mut rollout, place), verdict) in std::mem::take(&mut group.rollouts).into_iter().zip(std::mem::take(places)).zip(verdicts)
            {
                let (keep, reason) = apply(&mut rollout, verdict);
                if !reason.is_empty() {
                    records[place].verdicts.push(Verdict { rule: format!("filters[{n}]"), keep, reason });
                }
                if keep {
                    kept.push(rollout);
                    kept_places.push(place);
                }
            }
            group.rollouts = kept;
            *places = kept_places;
        }
    }
}

/// Whether the rollout stays, and why not or why masked.
fn apply(rollout: &mut Rollout, verdict: Judgment) -> (bool, String) {
    match verdict {
        Judgment::Keep => (true, String::new()),
        Judgment::Drop(reason) => (false, reason),
        Judgment::Mask(ranges, reason) => {
            for (first, end) in ranges {
                let end = end.min(rollout.mask.len());
                rollout.mask[first.min(end)..end].fill(false);
            }
            (true, reason)
        }
    }
}

/// The rollout as parts see it.
fn rollout(one: &Finished, problem: usize) -> Rollout {
    let t = &one.trajectory;
    let wide = |list: &Option<Vec<f32>>| list.as_ref().map(|l| l.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
    Rollout {
        id: t.id.clone(),
        problem,
        level: t.level,
        group: t.group as usize,
        sample: t.sample,
        tokens: t.token_ids.clone(),
        mask: t.loss_mask.clone(),
        old_logprobs: wide(&t.logprobs).unwrap_or_default(),
        entropies: wide(&t.entropies),
        weights_version: t.weights_version.clone(),
        values: None,
        fork_at: t.fork_at.map(|f| f as usize),
        rewards: t.rewards.clone(),
        reward: t.reward,
        turn_rewards: t.turn_rewards.clone(),
        turns: one.turns.clone(),
        step_ends: t.step_ends.iter().map(|e| *e as usize).collect(),
        step_scores: wide(&t.step_scores),
        correct: one.correct,
        truncated: t.stop_reason == StopReason::Length,
        tool_calls: t.tool_calls,
        tool_errors: t.tool_errors,
    }
}

impl Tally {
    fn count(&mut self, one: &Finished) {
        let t = &one.trajectory;
        debug_assert_eq!(t.status, Status::Ok);
        self.passes += u64::from(one.correct);
        self.reward += t.reward;
        self.tool_calls += u64::from(t.tool_calls);
        self.tool_errors += u64::from(t.tool_errors);
        self.turns += u64::from(t.turns);
        self.tokens += one.sampled() as u64;
        self.entropy += t.entropies.iter().flatten().map(|h| f64::from(*h)).sum::<f64>();
        self.truncated += u64::from(one.truncated());
        self.void += u64::from(one.turns.iter().any(trainyard_learn::TurnSummary::is_void));
        let level = self.levels.entry(t.level).or_default();
        level.0 += 1;
        level.1 += u64::from(one.correct);
        for (name, value) in &t.rewards {
            let entry = self.components.entry(name.clone()).or_default();
            entry.0 += 1;
            entry.1 += value;
        }
    }
    /// Per-rollout means and shares by metric name.
    pub fn metrics(&self, kept_groups: usize) -> Vec<(String, f64)> {
        let scored = (self.rollouts - self.failures).max(1) as f64;
        let mut list: Vec<(String, f64)> = vec![
            ("reward_mean".into(), self.reward / scored),
            ("pass_rate".into(), self.passes as f64 / scored),
            ("entropy".into(), self.entropy / self.tokens.max(1) as f64),
            ("tool_calls".into(), self.tool_calls as f64 / scored),
            ("tool_errors".into(), self.tool_errors as f64 / scored),
            ("turns".into(), self.turns as f64 / scored),
            ("tokens".into(), self.tokens as f64 / scored),
            ("truncated_share".into(), self.truncated as f64 / scored),
            ("void_share".into(), self.void as f64 / scored),
            ("kept_groups_share".into(), kept_groups as f64 / self.groups.max(1) as f64),
            ("infrastructure_failures".into(), self.failures as f64),
        ];
        list.extend(self.levels.iter().map(|(l, (n, p))| (format!("pass_rate_level_{l}"), *p as f64 / *n as f64)));
        list.extend(self.components.iter().map(|(name, (n, sum))| (format!("reward_{name}"), sum / *n as f64)));
        list
    }
}
