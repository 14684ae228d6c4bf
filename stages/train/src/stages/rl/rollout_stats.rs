//! Counts properties of the rollouts of a step, and computes metrics from the counts. Each count is defined over either
//! the sampled or the selected rollouts.

use super::declared::ENTROPY;
use crate::programs::ProgramTotals;
use crate::rollouts::ToolWait;
use crate::unreadable::UNREADABLE;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_learn::{Rollout, TurnSummary};

/// Sums over a step. Infrastructure failures are counted separately.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutStats {
    /// Number of sampled rollouts, failures included.
    pub rollouts: u64,
    pub failures: u64,
    pub groups: u64,
    /// Groups of problems that were tried before and never passed.
    pub hopeless_groups: u64,
    pub draws: u64,
    /// Sum, over the used groups of asynchronous runs, of the updates between a group's oldest token and the group's
    /// update; and the number of groups that were left out because they were too stale.
    pub staleness: u64,
    pub stale_groups: u64,
    passes: u64,
    tool_calls: u64,
    tool_errors: u64,
    turns: u64,
    tokens: u64,
    /// Number of tokens sampled for one rollout alone: tokens that forks share count once.
    own_tokens: u64,
    entropy: f64,
    /// Number of rollouts whose sampler returned no entropies.
    without_entropies: u64,
    truncated: u64,
    void: u64,
    /// Number of rollouts without a readable answer.
    unreadable: u64,
    forks: u64,
    /// Counts of programs that keep their conversation.
    programs: ProgramTotals,
    /// Level → (rollouts, passes).
    levels: BTreeMap<u32, (u64, u64)>,
    /// Sums over the rollouts selected by the strategy.
    scored_stats: ScoredStats,
    /// Number of tokens decoded sequentially.
    critical_path: u64,
}

/// Sums over the rollouts that were scored.
#[derive(Debug, Clone, PartialEq, Default)]
struct ScoredStats {
    rollouts: u64,
    groups: u64,
    reward: f64,
    /// Reward component → (count, sum).
    components: BTreeMap<String, (u64, f64)>,
    /// Number of different rewards within a group, summed over groups.
    distinct_rewards: u64,
    /// Number of different final answers within a group, summed over groups, and the number of tokens sampled in these
    /// groups.
    distinct_answers: u64,
    own_tokens: u64,
    passes: u64,
    calls_of_passes: u64,
    /// Reward per additional call, failed call or token, within classes of rollouts of one group with the same verdict.
    per_call: Slope,
    per_error: Slope,
    per_token: Slope,
}

/// Regression of the reward on a count, within classes: Σ (n − mean)·(r − mean) and Σ (n − mean)² over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Slope {
    covariance: f64,
    variance: f64,
}

impl Slope {
    /// Adds the members of one class, each as (count, reward).
    fn add(&mut self, members: &[(f64, f64)]) {
        let n = members.len().max(1) as f64;
        let (count, reward) =
            (members.iter().map(|m| m.0).sum::<f64>() / n, members.iter().map(|m| m.1).sum::<f64>() / n);
        for (c, r) in members {
            self.covariance += (c - count) * (r - reward);
            self.variance += (c - count).powi(2);
        }
    }
    /// Returns the reward per unit; 0 if the counts do not differ within any class.
    fn value(self) -> f64 {
        if self.variance > 0.0 { self.covariance / self.variance } else { 0.0 }
    }
}

impl RolloutStats {
    /// Counts one sampled rollout.
    pub fn count(&mut self, one: &Rollout) {
        let t = &one.trajectory;
        self.rollouts += 1;
        if one.failed() {
            self.failures += 1;
            return;
        }
        self.passes += u64::from(one.correct);
        self.tool_calls += u64::from(t.tool_calls);
        self.tool_errors += u64::from(t.tool_errors);
        self.turns += u64::from(t.turns);
        self.tokens += one.sampled_tokens() as u64;
        self.own_tokens += one.own_tokens() as u64;
        self.entropy += t.entropies.iter().flatten().skip(one.given).map(|h| f64::from(*h)).sum::<f64>();
        self.without_entropies += u64::from(t.entropies.is_none() && one.sampled_tokens() > 0);
        self.truncated += u64::from(one.cut_off());
        self.void += u64::from(one.turns.iter().any(TurnSummary::is_void));
        self.unreadable += u64::from(t.answer_check.as_ref().is_some_and(|check| check.extracted.is_none()));
        self.forks += u64::from(one.fork_of.is_some());
        self.programs.count(&one.calls);
        let level = self.levels.entry(t.level).or_default();
        level.0 += 1;
        level.1 += u64::from(one.correct);
    }
    /// Counts the scored rollouts of one group.
    pub fn scored(&mut self, group: &[Rollout]) {
        let kept = &mut self.scored_stats;
        kept.rollouts += group.len() as u64;
        kept.groups += u64::from(!group.is_empty());
        for one in group {
            kept.reward += one.trajectory.reward;
            kept.own_tokens += one.own_tokens() as u64;
            for (name, value) in &one.trajectory.rewards {
                let entry = kept.components.entry(name.clone()).or_default();
                entry.0 += 1;
                entry.1 += value;
            }
        }
        kept.distinct_rewards +=
            group.iter().map(|o| o.trajectory.reward.to_bits()).collect::<BTreeSet<u64>>().len() as u64;
        kept.distinct_answers +=
            group.iter().map(|o| o.trajectory.answer.as_deref()).collect::<BTreeSet<_>>().len() as u64;
        let of = |right: bool, count: fn(&Rollout) -> f64| -> Vec<(f64, f64)> {
            group.iter().filter(|o| o.correct == right).map(|o| (count(o), o.trajectory.reward)).collect()
        };
        let calls = of(true, |o| f64::from(o.trajectory.tool_calls));
        kept.passes += calls.len() as u64;
        kept.calls_of_passes += calls.iter().map(|p| p.0 as u64).sum::<u64>();
        kept.per_call.add(&calls);
        kept.per_error.add(&of(true, |o| f64::from(o.trajectory.tool_errors)));
        for right in [true, false] {
            kept.per_token.add(&of(right, |o| o.trajectory.loss_mask.iter().filter(|m| **m).count() as f64));
        }
    }
    /// Adds the number of tokens that must be decoded sequentially if all episodes of the draw run together and tools
    /// take no time: the longest episode, or, in lockstep, the sum of the longest turns.
    pub fn critical_path(&mut self, finished: &[Rollout], wait: ToolWait) {
        let lengths = |f: &Rollout| {
            f.turns.iter().map(|t| t.end.saturating_sub(t.first.max(f.given)) as u64).collect::<Vec<u64>>()
        };
        let episodes: Vec<Vec<u64>> = finished.iter().map(lengths).collect();
        self.critical_path += match wait {
            ToolWait::Trajectory => episodes.iter().map(|turns| turns.iter().sum()).max().unwrap_or(0),
            ToolWait::Batch => {
                let rounds = episodes.iter().map(Vec::len).max().unwrap_or(0);
                (0..rounds).map(|k| episodes.iter().filter_map(|turns| turns.get(k)).max().copied().unwrap_or(0)).sum()
            }
        };
    }

    /// Returns per-rollout means and shares by metric name; `groups` = groups that survived the filters.
    pub fn metrics(&self, groups: usize) -> Vec<(String, f64)> {
        let sampled = (self.rollouts - self.failures).max(1) as f64;
        let kept = &self.scored_stats;
        let scored = kept.rollouts.max(1) as f64;
        let per_group = kept.groups.max(1) as f64;
        let mut list: Vec<(String, f64)> = vec![
            ("reward_mean".into(), kept.reward / scored),
            ("pass_rate".into(), self.passes as f64 / sampled),
            ("tool_calls".into(), self.tool_calls as f64 / sampled),
            ("tool_errors".into(), self.tool_errors as f64 / sampled),
            ("turns".into(), self.turns as f64 / sampled),
            ("tokens".into(), self.tokens as f64 / sampled),
            ("sampled_tokens".into(), self.own_tokens as f64),
            ("sampled_rollouts".into(), sampled),
            ("truncated_share".into(), self.truncated as f64 / sampled),
            ("void_share".into(), self.void as f64 / sampled),
            (UNREADABLE.into(), self.unreadable as f64 / sampled),
            ("forked_share".into(), self.forks as f64 / sampled),
            ("kept_groups_share".into(), groups as f64 / self.groups.max(1) as f64),
            ("hopeless_groups_share".into(), self.hopeless_groups as f64 / self.groups.max(1) as f64),
            ("distinct_rewards".into(), kept.distinct_rewards as f64 / per_group),
            ("distinct_answers".into(), kept.distinct_answers as f64 / per_group),
            ("tokens_per_distinct_answer".into(), kept.own_tokens as f64 / kept.distinct_answers.max(1) as f64),
            ("tool_calls_per_pass".into(), kept.calls_of_passes as f64 / kept.passes.max(1) as f64),
            ("reward_per_call".into(), kept.per_call.value()),
            ("reward_per_error".into(), kept.per_error.value()),
            ("reward_per_token".into(), kept.per_token.value()),
            ("critical_path_tokens".into(), self.critical_path as f64),
            ("staleness".into(), self.staleness as f64 / groups.max(1) as f64),
            ("stale_groups".into(), self.stale_groups as f64),
            ("infrastructure_failures".into(), self.failures as f64),
        ];
        if self.without_entropies == 0 {
            list.insert(2, (ENTROPY.into(), self.entropy / self.tokens.max(1) as f64));
        }
        list.extend(self.programs.means().map(|(name, mean)| (name.to_string(), mean)));
        list.extend(self.levels.iter().map(|(l, (n, p))| (format!("pass_rate_level_{l}"), *p as f64 / *n as f64)));
        list.extend(kept.components.iter().map(|(name, (n, sum))| (format!("rewards.{name}"), sum / *n as f64)));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_learn::ProgramCalls;
    use trainyard_tables::{AnswerCheck, Trajectory};

    #[test]
    fn a_slope_is_taken_within_classes() {
        let mut slope = Slope::default();
        assert_eq!(slope.value(), 0.0);
        slope.add(&[(1.0, 1.0), (3.0, 0.0)]);
        slope.add(&[(10.0, 5.0)]);
        assert_eq!(slope.value(), -0.5);
        slope.add(&[(0.0, 2.0), (2.0, 2.0)]);
        assert_eq!(slope.value(), -0.25);
    }

    #[test]
    fn given_tokens_are_not_the_policys() {
        let trajectory = Trajectory {
            loss_mask: vec![false, true, true, false, true],
            entropies: Some(vec![0.0, 4.0, 4.0, 0.0, 1.0]),
            ..Trajectory::default()
        };
        let turn = |first, end| TurnSummary { first, end, ..TurnSummary::default() };
        let one = Rollout { trajectory, given: 3, turns: vec![turn(1, 3), turn(4, 5)], ..Rollout::default() };
        let mut tally = RolloutStats::default();
        tally.count(&one);
        tally.critical_path(&[one], ToolWait::Trajectory);
        let metrics = tally.metrics(0);
        let of = |name: &str| metrics.iter().find(|m| m.0 == name).unwrap().1;
        assert_eq!((of("tokens"), of("entropy"), of("critical_path_tokens")), (1.0, 1.0, 1.0));
    }

    #[test]
    fn programs_are_counted_where_there_are_any() {
        let mut tally = RolloutStats::default();
        tally.count(&Rollout::default());
        assert!(tally.metrics(0).iter().all(|(name, _)| !name.starts_with("segments")));
        for segments in [1, 4] {
            let calls = ProgramCalls { segments, healed: 2, ..ProgramCalls::default() };
            tally.count(&Rollout { calls, ..Rollout::default() });
        }
        let metrics = tally.metrics(0);
        let of = |name: &str| metrics.iter().find(|m| m.0 == name).unwrap().1;
        assert_eq!((of("segments"), of("healed_turns"), of("refused_calls")), (2.5, 2.0, 0.0));
    }

    #[test]
    fn rollouts_without_a_readable_answer_are_a_share() {
        let mut tally = RolloutStats::default();
        for extracted in [Some("7".to_string()), None, None, Some("8".to_string())] {
            let answer_check = Some(AnswerCheck { extracted, ..AnswerCheck::default() });
            let trajectory = Trajectory { answer_check, ..Trajectory::default() };
            tally.count(&Rollout { trajectory, ..Rollout::default() });
        }
        assert!(tally.metrics(0).contains(&("unreadable_answers".to_string(), 0.5)));
    }

    #[test]
    fn missing_entropies_are_left_out() {
        let mut tally = RolloutStats::default();
        let trajectory = Trajectory { loss_mask: vec![false, true], ..Trajectory::default() };
        tally.count(&Rollout { trajectory, ..Rollout::default() });
        assert!(tally.metrics(0).iter().all(|(name, _)| name != ENTROPY));
        assert!(RolloutStats::default().metrics(0).iter().any(|(name, _)| name == ENTROPY));
    }

    #[test]
    fn lockstep_takes_the_longest_turn_of_every_round() {
        let episode = |lengths: &[usize]| {
            let turn = |n: &usize| TurnSummary { first: 0, end: *n, ..TurnSummary::default() };
            Rollout { turns: lengths.iter().map(turn).collect(), ..Rollout::default() }
        };
        let batch = [episode(&[5, 1]), episode(&[1, 7]), episode(&[2])];
        let path = |wait| {
            let mut tally = RolloutStats::default();
            tally.critical_path(&batch, wait);
            tally.critical_path
        };
        assert_eq!((path(ToolWait::Trajectory), path(ToolWait::Batch)), (8, 12));
    }
}
