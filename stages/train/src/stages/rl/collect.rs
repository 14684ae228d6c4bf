//! Sampling one step's batch: problems, rollouts, selection, rewards, filters, drawing again until the batch is full.
//!
//! Why so: synchronous and asynchronous rollouts differ in when groups come, not in what becomes of them, so both absorb a group here; a
//! batch and its records are made in one pass, and every objection stays with its record. Refuses: scoring or learning from what the
//! infrastructure ended, which is recorded and goes no further.

use super::parts::Parts;
use super::run::Run;
use super::tally::Tally;
use std::collections::BTreeSet;
use trainyard_core::{Chance, Result};
use trainyard_learn::{Batch, Draw, Group, PassRates, Progress, Rollout, Spawn, Verdict as Judgment};
use trainyard_lm::Generator;
use trainyard_tables::{StopReason, Trajectory, Verdict};

use crate::rollouts::{Driver, Finished, Forking, Job, Limits, Start, rescore};

/// What one step sampled.
#[derive(Default)]
pub struct Collected {
    /// What enters the update.
    pub batch: Batch,
    /// The records of all sampled rollouts, in order, with rewards and verdicts.
    pub records: Vec<Trajectory>,
    /// Place in `records` of every rollout of the batch.
    pub places: Vec<usize>,
    /// Groups that are not drawn again, though a filter dropped them.
    pub left_out: usize,
    pub tally: Tally,
}

impl Run<'_> {
    /// Draws until `problems_per_step` groups survive the filters, or the draws are used up.
    pub(super) fn collect(
        &mut self,
        step: u64,
        parts: &mut Parts,
        rates: &mut PassRates,
        generator: &mut Generator,
    ) -> Result<Collected> {
        let mut all = Collected { batch: Batch { step, groups: Vec::new() }, ..Collected::default() };
        let chance = self.chance.child("step", &[step]);
        for draw_number in 0..self.config.resample.max_draws {
            let missing = self.config.problems_per_step.saturating_sub(all.batch.groups.len() + all.left_out);
            if missing == 0 {
                break;
            }
            let draw = parts.curriculum.next(step, missing, &self.pool, rates, &self.curriculum_chance());
            if draw.problems.is_empty() {
                break;
            }
            let draw_chance = chance.child("draw", &[draw_number]);
            let finished = self.sample(
                &format!("rl/{step}/{draw_number}"),
                &draw,
                parts,
                generator,
                self.progress(step),
                draw_chance,
            )?;
            all.tally.draws += 1;
            all.tally.critical_path(&finished, self.config.rollout.tool_wait);
            self.absorb(finished, &draw, parts, rates, self.progress(step), draw_chance, &mut all)?;
        }
        self.complete(parts, generator, &mut all.batch)?;
        Ok(all)
    }
    /// One for the whole run: a curriculum's passes go on over steps and draws, and its state says where it is in them.
    pub(super) fn curriculum_chance(&self) -> Chance {
        self.chance.child("curriculum", &[])
    }
    /// What the parts must know of a full batch.
    pub(super) fn complete(&self, parts: &Parts, generator: &mut Generator, batch: &mut Batch) -> Result<()> {
        for (i, group) in batch.groups.iter_mut().enumerate() {
            group.rollouts.iter_mut().for_each(|r| r.group = i);
        }
        if parts.needs().forced_scores { self.score_gold(generator, batch) } else { Ok(()) }
    }
    pub(super) fn progress(&self, step: u64) -> Progress {
        Progress { step, steps: self.config.steps }
    }

    fn sample(
        &self,
        name: &str,
        draw: &Draw,
        parts: &mut Parts,
        generator: &mut Generator,
        progress: Progress,
        chance: Chance,
    ) -> Result<Vec<Finished>> {
        let size = self.config.rollout.group_size;
        let spawns = parts.strategy.start(draw, &self.pool, size, progress, &chance.child("start", &[]));
        let jobs: Vec<Job> = spawns.into_iter().map(|s| job(draw, s)).collect();
        let mut driver = Driver {
            generator,
            model: &self.policy.folder,
            environment: &*self.environment,
            limits: self.limits(),
            sampling: self.config.sampling().distribution(),
            chance,
            name: name.to_string(),
            cancel: &self.cancel,
        };
        let mut finished = if parts.strategy.needs().fork {
            let forking = Forking::new(&mut *parts.strategy, size, chance.child("strategy", &[]));
            driver.run_forking(&self.problems, &jobs, forking)?
        } else {
            driver.run(&self.problems, &jobs)?
        };
        for one in &mut finished {
            let t = &mut one.trajectory;
            let before = repeats(draw, t.group as usize);
            if before > 0 {
                t.id = format!("{}+{before}", t.id);
                t.fork_of = t.fork_of.as_ref().map(|id| format!("{id}+{before}"));
            }
        }
        Ok(finished)
    }
    pub(super) fn limits(&self) -> Limits {
        let rollout = &self.config.rollout;
        Limits {
            turn_tokens: rollout.max_turn_tokens,
            episode_tokens: rollout.max_episode_tokens,
            running: rollout.max_running,
            tool_wait: rollout.tool_wait,
        }
    }

    /// Selects from every group, scores what is kept, counts it, filters it, keeps what survives.
    #[expect(clippy::too_many_arguments, reason = "the state of a step, which its callers hold in these pieces")]
    pub(super) fn absorb(
        &mut self,
        finished: Vec<Finished>,
        draw: &Draw,
        parts: &mut Parts,
        rates: &mut PassRates,
        progress: Progress,
        chance: Chance,
        all: &mut Collected,
    ) -> Result<()> {
        let mut groups: Vec<Group> = draw
            .problems
            .iter()
            .map(|&p| Group { problem: p, level: self.problems[p].level, rollouts: Vec::new() })
            .collect();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        let hopeless = |p: &usize| matches!(rates.problem(*p), (1.., 0));
        all.tally.hopeless_groups += draw.problems.iter().filter(|p| hopeless(p)).count() as u64;
        for (g, members) in by_group(finished, groups.len()).into_iter().enumerate() {
            let problem = draw.problems[g];
            let mut members = self.counted(members, problem, rates, all);
            let sampled = members.iter().map(|m| rollout(m, problem)).collect();
            let kept =
                parts.strategy.select(sampled, self.config.rollout.group_size, &chance.child("select", &[g as u64]));
            let kept: BTreeSet<u32> = kept.iter().map(|r| r.sample).collect();
            let (mut chosen, others): (Vec<Finished>, Vec<Finished>) =
                members.drain(..).partition(|m| kept.contains(&m.trajectory.sample));
            let correct: Vec<bool> = chosen.iter().map(|m| m.correct).collect();
            let mut trajectories: Vec<&mut Trajectory> = chosen.iter_mut().map(|m| &mut m.trajectory).collect();
            self.rewards.score_group(
                &mut trajectories,
                &correct,
                &self.problems[problem],
                progress.step,
                progress.steps,
            );
            all.tally.scored(&chosen);
            for one in chosen {
                groups[g].rollouts.push(rollout(&one, problem));
                places[g].push(all.records.len());
                all.records.push(one.trajectory);
            }
            all.records.extend(others.into_iter().map(|m| not_selected(m.trajectory)));
        }
        all.tally.groups += groups.len() as u64;
        all.left_out += filter(&mut groups, &mut places, parts, &mut all.records);
        for (group, places) in groups.into_iter().zip(places) {
            if group.rollouts.iter().any(|r| r.loss_tokens() > 0) {
                all.batch.groups.push(group);
                all.places.extend(places);
            }
        }
        Ok(())
    }

    /// The members that count. Those that the infrastructure lost are recorded and left out; pass rates are those of the policy by
    /// itself, so members that were helped do not enter them.
    fn counted(
        &self,
        members: Vec<Finished>,
        problem: usize,
        rates: &mut PassRates,
        all: &mut Collected,
    ) -> Vec<Finished> {
        let mut counted = Vec::with_capacity(members.len());
        for mut one in members {
            one.trajectory.model_digest = Some(self.policy.digest.clone());
            all.tally.count(&one);
            if one.failed() {
                all.records.push(one.trajectory);
                continue;
            }
            if one.given == 0 && !one.scaffolded {
                rates.observe(one.trajectory.level, problem, one.correct);
            }
            counted.push(one);
        }
        counted
    }

    /// Sets `gold_logprobs` of the whole batch.
    fn score_gold(&self, generator: &mut Generator, batch: &mut Batch) -> Result<()> {
        let episodes: Vec<_> = batch
            .rollouts()
            .map(|r| (r.tokens.as_slice(), r.turns.as_slice(), self.problems[r.problem].answer.as_str()))
            .collect();
        let scores = rescore::gold_logprobs(generator, &self.policy.folder.chat, &episodes)?;
        for (rollout, scores) in batch.groups.iter_mut().flat_map(|g| &mut g.rollouts).zip(scores) {
            rollout.gold_logprobs = Some(scores);
        }
        Ok(())
    }
}

pub(super) fn job(draw: &Draw, spawn: Spawn) -> Job {
    let problem = draw.problems[spawn.group];
    Job {
        problem,
        draw: repeats(draw, spawn.group),
        group: spawn.group as u32,
        sample: spawn.sample,
        start: spawn.prefix.map_or(Start::Root, Start::Prefix),
        scaffold: if spawn.scaffold.is_empty() { draw.scaffold.clone() } else { spawn.scaffold },
        max_turns: draw.max_turns,
    }
}

/// Earlier groups of the draw with the same problem: a problem that a draw holds twice is sampled twice, by other chance.
fn repeats(draw: &Draw, group: usize) -> u64 {
    draw.problems[..group].iter().filter(|p| **p == draw.problems[group]).count() as u64
}

/// Members of each group in order of sample.
fn by_group(finished: Vec<Finished>, groups: usize) -> Vec<Vec<Finished>> {
    let mut lists: Vec<Vec<Finished>> = vec![Vec::new(); groups];
    for one in finished {
        lists[one.trajectory.group as usize].push(one);
    }
    lists.iter_mut().for_each(|l| l.sort_by_key(|f| f.trajectory.sample));
    lists
}

fn not_selected(mut record: Trajectory) -> Trajectory {
    record.verdicts.push(Verdict {
        rule: "rollout/strategy".into(),
        keep: false,
        reason: "the strategy did not select it".into(),
    });
    record
}

/// Applies the filters in order. A later one sees what the earlier ones left; every objection is recorded. Returns how many groups were
/// emptied by filters in whose place nothing is drawn again.
fn filter(groups: &mut [Group], places: &mut [Vec<usize>], parts: &mut Parts, records: &mut [Trajectory]) -> usize {
    let mut left_out = 0;
    for (n, part) in parts.filters.iter_mut().enumerate() {
        let verdicts = part.judge(groups);
        for ((group, places), verdicts) in groups.iter_mut().zip(places.iter_mut()).zip(verdicts) {
            let mut kept = Vec::with_capacity(group.rollouts.len());
            let mut kept_places = Vec::with_capacity(places.len());
            let had = !places.is_empty();
            for ((mut rollout, place), verdict) in
                std::mem::take(&mut group.rollouts).into_iter().zip(std::mem::take(places)).zip(verdicts)
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
            left_out += usize::from(had && kept.is_empty() && !part.resamples());
            group.rollouts = kept;
            *places = kept_places;
        }
    }
    left_out
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
        values: None,
        fork_at: t.fork_at.map(|f| f as usize),
        fork_of: one.fork_of,
        given: one.given,
        scaffolded: one.scaffolded,
        gold_logprobs: None,
        rewards: t.rewards.clone(),
        reward: t.reward,
        turn_rewards: t.turn_rewards.clone(),
        turns: one.turns.clone(),
        correct: one.correct,
        truncated: t.stop_reason == StopReason::Length,
        tool_calls: t.tool_calls,
        tool_errors: t.tool_errors,
    }
}
