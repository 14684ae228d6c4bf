//! Builds a batch from sampled groups by selection, rewards and filters, and draws the groups of a synchronous step.
//!
//! All sources pass their groups through this module, so sources differ in the time at which groups arrive and not in
//! the processing of groups. A rollout is moved from list to list and never copied: it ends in the batch or among the
//! rollouts that the update does not use, and both are written.

use super::filtering::{filter, kind_of, not_selected, rule_names};
use super::rollout_stats::RolloutStats;
use super::state::{RlProgress, RlRun};
use crate::rewards::ScoredGroup;
use crate::rollouts::{EpisodeJob, EpisodeStart, ForkScheduler, RolloutDriver, rescore};
use trainyard_core::{Chance, Result};
use trainyard_learn::{Batch, Draw, Group, PassRates, Rollout, Spawn, TokenGrid};
use trainyard_lm::backend::Sampler;
use trainyard_tables::Trajectory;

/// Rollouts sampled in one step.
#[derive(Default)]
pub struct RolloutBatch {
    /// Rollouts of the update.
    pub batch: Batch,
    /// Rollouts outside the batch: failed, not selected, dropped, or of a group without a token in the loss.
    pub unused: Vec<Rollout>,
    /// Number of groups dropped by a filter that does not request a replacement.
    pub left_out: usize,
    /// Number of rollouts with a position in the order of writing.
    placed: usize,
    pub stats: RolloutStats,
}

impl RolloutBatch {
    pub fn of_step(step: u64) -> Self {
        Self { batch: Batch { step, groups: Vec::new() }, ..Self::default() }
    }
    /// Gives a rollout the next position in the order of writing.
    fn place(&mut self, rollout: &mut Rollout) {
        rollout.place = self.placed;
        self.placed += 1;
    }
    /// Returns all rows in order, those of the batch with their advantages.
    pub fn into_rows(self, advantages: TokenGrid) -> Vec<Trajectory> {
        let update = u32::try_from(self.batch.step).ok();
        let learned = self.batch.groups.into_iter().flat_map(|g| g.rollouts).zip(advantages);
        let learned = learned.map(|(mut rollout, row)| {
            rollout.trajectory.advantages = Some(row.iter().map(|a| *a as f32).collect());
            rollout
        });
        let mut all: Vec<Rollout> = learned.chain(self.unused).collect();
        all.sort_by_key(|r| r.place);
        all.into_iter().map(|r| Trajectory { update, ..r.trajectory }).collect()
    }
}

/// Members of a group, sorted before scoring.
struct SortedGroup {
    problem: usize,
    failed: Vec<Rollout>,
    chosen: Vec<Rollout>,
    others: Vec<Rollout>,
}

impl RlRun<'_> {
    /// Draws groups until `problems_per_step` groups pass the filters, the curriculum has no problem, or the draws are
    /// used up.
    pub(super) fn collect(&self, progress: &mut RlProgress) -> Result<RolloutBatch> {
        let step = progress.state.step;
        let mut all = RolloutBatch::of_step(step);
        let chance = self.chance.child("step", &[step]);
        for draw_number in 0..self.config.resample.max_draws {
            let missing = self.config.problems_per_step.saturating_sub(all.batch.groups.len() + all.left_out);
            if missing == 0 {
                break;
            }
            let rates = &progress.state.rates;
            let draw = progress.parts.curriculum.next(step, missing, &self.pool, rates, &self.curriculum_chance());
            if draw.problems.is_empty() {
                break;
            }
            let chance = chance.child("draw", &[draw_number]);
            let rollouts = self.sample(&format!("rl/{step}/{draw_number}"), &draw, progress, chance)?;
            all.stats.draws += 1;
            all.stats.critical_path(&rollouts, self.config.rollout.tool_wait);
            self.absorb(by_group(rollouts, draw.problems.len()), &draw, progress, chance, &mut all)?;
        }
        self.complete(progress, &mut all.batch)?;
        Ok(all)
    }

    /// Creates a driver of episodes whose ids begin with `name`.
    pub(super) fn driver<'s>(
        &'s self,
        sampler: &'s mut dyn Sampler,
        name: &str,
        chance: Chance,
    ) -> RolloutDriver<'s, 's> {
        RolloutDriver {
            sampler,
            model: &self.policy.folder,
            environment: &*self.environment,
            limits: self.limits(),
            sampling: self.config.sampling().distribution(),
            chance,
            name: name.to_string(),
            cancel: &self.cancel,
        }
    }

    /// Runs the episodes of one draw.
    fn sample(&self, name: &str, draw: &Draw, progress: &mut RlProgress, chance: Chance) -> Result<Vec<Rollout>> {
        let size = self.config.rollout.group_size;
        let place = self.place(progress.state.step);
        let strategy = &mut *progress.parts.strategy;
        let spawns = strategy.start(draw, &self.pool, size, place, &chance.child("start", &[]));
        let jobs: Vec<EpisodeJob> = spawns.into_iter().map(|s| job(draw, s)).collect();
        let mut driver = self.driver(&mut *progress.sampler, name, chance);
        let mut rollouts = if strategy.needs().fork {
            let forking = ForkScheduler::new(strategy, size, chance.child("strategy", &[]));
            driver.run_forking(&self.problems, &jobs, forking)?
        } else {
            driver.run(&self.problems, &jobs)?
        };
        for one in &mut rollouts {
            let t = &mut one.trajectory;
            let before = repeats(draw, t.group as usize);
            if before > 0 {
                t.id = format!("{}+{before}", t.id);
                t.fork_of = t.fork_of.as_ref().map(|id| format!("{id}+{before}"));
            }
        }
        Ok(rollouts)
    }

    /// Selects rollouts from every group of a draw, scores and counts them, filters them, and puts the remaining ones
    /// into the batch.
    pub(super) fn absorb(
        &self,
        members: Vec<Vec<Rollout>>,
        draw: &Draw,
        progress: &mut RlProgress,
        chance: Chance,
        all: &mut RolloutBatch,
    ) -> Result<()> {
        let at = self.place(progress.state.step);
        let strategy = kind_of(&self.config.rollout.strategy);
        let rates = &mut progress.state.rates;
        let hopeless = |p: &&usize| matches!(rates.problem(**p), (1.., 0));
        all.stats.hopeless_groups += draw.problems.iter().filter(hopeless).count() as u64;
        let mut sorted = Vec::with_capacity(members.len());
        for (g, (members, &problem)) in members.into_iter().zip(&draw.problems).enumerate() {
            let (members, failed) = self.counted(members, g, rates, all);
            let size = self.config.rollout.group_size;
            let kept = progress.parts.strategy.select(&members, size, &chance.child("select", &[g as u64]));
            let (mut chosen, mut others) = (Vec::new(), Vec::new());
            for (rollout, kept) in members.into_iter().zip(kept) {
                if kept { chosen.push(rollout) } else { others.push(rollout) }
            }
            sorted.push(SortedGroup { problem, failed, chosen, others });
        }
        let mut together = Vec::with_capacity(sorted.len());
        for SortedGroup { problem, chosen, .. } in &mut sorted {
            let correct = chosen.iter().map(|r| r.correct).collect();
            let members = chosen.iter_mut().map(|r| &mut r.trajectory).collect();
            together.push(ScoredGroup { problem: &self.problems[*problem], members, correct });
        }
        progress.rewards.score_groups(&mut together, at.step, at.steps)?;
        drop(together);
        let mut groups = Vec::with_capacity(sorted.len());
        for SortedGroup { problem, failed, mut chosen, others } in sorted {
            for mut rollout in failed {
                all.place(&mut rollout);
                all.unused.push(rollout);
            }
            all.stats.scored(&chosen);
            chosen.iter_mut().for_each(|r| all.place(r));
            for mut rollout in others {
                all.place(&mut rollout);
                not_selected(&mut rollout, strategy);
                all.unused.push(rollout);
            }
            groups.push(Group { problem, level: self.problems[problem].level, rollouts: chosen });
        }
        all.stats.groups += groups.len() as u64;
        let names = rule_names(&self.config.filters);
        all.left_out += filter(&mut groups, &mut progress.parts.filters, &names, &mut all.unused);
        for group in groups {
            if group.rollouts.iter().any(|r| r.loss_tokens() > 0) {
                all.batch.groups.push(group);
            } else {
                all.unused.extend(group.rollouts);
            }
        }
        Ok(())
    }

    /// Counts the members, updates the pass rates, and splits off infrastructure failures: returns (members, failures).
    /// Pass rates are those of the policy without help, so members with hints or given tokens do not count.
    fn counted(
        &self,
        members: Vec<Rollout>,
        group: usize,
        rates: &mut PassRates,
        all: &mut RolloutBatch,
    ) -> (Vec<Rollout>, Vec<Rollout>) {
        let (mut counted, mut failed) = (Vec::with_capacity(members.len()), Vec::new());
        for mut one in members {
            one.trajectory.model_digest = Some(self.policy.digest.clone());
            one.group = group;
            all.stats.count(&one);
            if one.failed() {
                failed.push(one);
                continue;
            }
            if one.given == 0 && !one.scaffolded {
                rates.observe(one.trajectory.level, one.problem, one.correct);
            }
            counted.push(one);
        }
        (counted, failed)
    }

    /// Adds the values that the parts need for a full batch. The sampler of `progress` scores gold answers with its
    /// current weights.
    pub(super) fn complete(&self, progress: &mut RlProgress, batch: &mut Batch) -> Result<()> {
        for (i, group) in batch.groups.iter_mut().enumerate() {
            group.rollouts.iter_mut().for_each(|r| r.group = i);
        }
        if !progress.parts.needs().forced_scores {
            return Ok(());
        }
        let episodes: Vec<_> = batch
            .rollouts()
            .map(|r| (&r.trajectory, r.turns.as_slice(), self.problems[r.problem].answer.as_str()))
            .collect();
        let scores = rescore::gold_logprobs(&mut *progress.sampler, &self.policy.folder.chat, &episodes)?;
        for (rollout, scores) in batch.groups.iter_mut().flat_map(|g| &mut g.rollouts).zip(scores) {
            rollout.gold_logprobs = Some(scores);
        }
        Ok(())
    }
}

/// Returns the job of a sequence that a strategy starts.
pub(super) fn job(draw: &Draw, spawn: Spawn) -> EpisodeJob {
    EpisodeJob {
        problem: draw.problems[spawn.group],
        draw: repeats(draw, spawn.group),
        group: spawn.group as u32,
        sample: spawn.sample,
        start: spawn.prefix.map_or(EpisodeStart::Root, EpisodeStart::Prefix),
        scaffold: if spawn.scaffold.is_empty() { draw.scaffold.clone() } else { spawn.scaffold },
        max_turns: draw.max_turns,
    }
}

/// Counts earlier groups of the draw with the same problem, because a problem that occurs twice in a draw is sampled
/// with different random draws.
fn repeats(draw: &Draw, group: usize) -> u64 {
    draw.problems[..group].iter().filter(|p| **p == draw.problems[group]).count() as u64
}

/// Returns the members of each group in order of sample.
fn by_group(rollouts: Vec<Rollout>, groups: usize) -> Vec<Vec<Rollout>> {
    let mut lists: Vec<Vec<Rollout>> = vec![Vec::new(); groups];
    for one in rollouts {
        lists[one.trajectory.group as usize].push(one);
    }
    lists.iter_mut().for_each(|l| l.sort_by_key(|r| r.trajectory.sample));
    lists
}
