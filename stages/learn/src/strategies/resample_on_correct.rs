//! Implements `resample_on_correct` (GRPO-RoC of rStar2-Agent, 2508.20722), which samples more rollouts than a group
//! contains, and keeps failures at random and successes with a preference for clean ones.
//!
//! A correct answer after failed tool calls earns the same outcome reward as a clean one and reinforces the failed
//! calls as well. A policy could exploit a penalty in the reward, but not a selection among successes. Failures keep
//! their variety, and the group keeps its pass rate, because both classes shrink by the same factor.

use super::{Tally, from_root};
use crate::batch::Rollout;
use crate::part::{Draw, Needs, ProblemPool, Progress, RlPart, Spawn, Strategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce, above};

/// Options of `resample_on_correct`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResampleOnCorrect {
    /// Rollouts sampled for each one kept.
    #[schemars(range(min = 1))]
    pub oversample: u32,
    /// Minimum of failures and of successes to keep, as far as they exist and fit into half of the group.
    pub least: u32,
    /// Term added to the penalty of a success before inverting it; a small value nearly always prefers the cleanest.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub smoothing: f64,
    /// Placebo: keeps as many of the sampled rollouts, drawn uniformly whether they are right or clean.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
    #[serde(skip)]
    tally: Tally,
}

impl Default for ResampleOnCorrect {
    fn default() -> Self {
        Self { oversample: 2, least: 1, smoothing: 0.01, by_chance: false, tally: Tally::default() }
    }
}

impl PartOptions for ResampleOnCorrect {
    const KIND: &'static str = "resample_on_correct";
    const SUMMARY: &'static str = "oversamples, then keeps clean successes (GRPO-RoC, 2508.20722)";
    const DOC: &'static str = "Samples oversample·G rollouts from the root and keeps G of them. Of n failures (not\n\
        `correct`) it keeps n·G/(oversample·G), rounded half up, chosen uniformly. The rest are successes, drawn\n\
        one by one without replacement with probability proportional to 1/(p_err + p_fmt + smoothing), where p_err =\n\
        failed / all tool calls (0.5 without a call) and p_fmt = 1 without a turn that answered, else min(1, (answers\n\
        − 1) / turns). At least `least` of each class are kept as far as there are any. If at most G ended, all are\n\
        kept. The order of samples does not change.\n\n\
        The paper leaves the inverse of a zero penalty open, and the released code takes the least penalized in\n\
        order, with `least` 2; `smoothing` lies between the two. Metrics of the last step: sampled_error_rate and\n\
        selected_error_rate (mean p_err of all and of the kept successes), error_rate_removed (their difference).\n\
        Source: 2508.20722.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new(
                "sampled_error_rate",
                "share",
                "Mean share of failed tool calls over the correct rollouts that were sampled.",
            )
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("sampled_error_rate"),
            MetricInfo::new(
                "selected_error_rate",
                "share",
                "Mean share of failed tool calls over the correct rollouts that were kept.",
            )
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("selected_error_rate"),
            MetricInfo::new(
                "error_rate_removed",
                "share",
                "Error rate of the sampled minus that of the kept correct rollouts.",
            )
            .higher()
            .reduced_by(Reduce::Whole)
            .optional()
            .former_name("error_rate_removed"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let oversample = OptionProblem::out_of_range("/oversample", self.oversample, 1..);
        let smoothing = OptionProblem::out_of_range("/smoothing", self.smoothing, above(0.0));
        let smoothing =
            smoothing.map(|p| p.help("use a value above 0, which keeps the inverse of a zero penalty finite"));
        oversample.into_iter().chain(smoothing).collect()
    }
}

impl RlPart for ResampleOnCorrect {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Strategy for ResampleOnCorrect {
    fn start(
        &mut self,
        draw: &Draw,
        _pool: &ProblemPool,
        size: u32,
        progress: Progress,
        _chance: &Chance,
    ) -> Vec<Spawn> {
        self.tally.begin(progress);
        from_root(draw, self.max_sequences(size))
    }
    fn select(&mut self, done: &[Rollout], size: u32, chance: &Chance) -> Vec<bool> {
        let kept = self.select_kept(done, size as usize, chance);
        for (rollout, &kept) in done.iter().zip(&kept).filter(|(r, _)| r.correct) {
            let rate = error_rate(rollout);
            self.tally.add("sampled_error_rate", rate, 1);
            if kept {
                self.tally.add("selected_error_rate", rate, 1);
            }
        }
        kept
    }
    fn max_sequences(&self, size: u32) -> u32 {
        size.saturating_mul(self.oversample)
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut list = self.tally.metrics();
        let of = |name: &str| list.iter().find(|m| m.0 == name).map(|m| m.1);
        if let (Some(sampled), Some(selected)) = (of("sampled_error_rate"), of("selected_error_rate")) {
            list.push(("error_rate_removed", sampled - selected));
        }
        list
    }
}

impl ResampleOnCorrect {
    /// Returns whether each rollout is kept.
    fn select_kept(&self, done: &[Rollout], size: usize, chance: &Chance) -> Vec<bool> {
        if done.len() <= size {
            return vec![true; done.len()];
        }
        let place = [done[0].problem as u64, done[0].group as u64];
        if self.by_chance {
            let mut order: Vec<usize> = (0..done.len()).collect();
            chance.at("uniform", &place).shuffle(&mut order);
            let mut kept = vec![false; done.len()];
            order.iter().take(size).for_each(|&i| kept[i] = true);
            return kept;
        }
        let (mut good, mut bad): (Vec<usize>, Vec<usize>) = (0..done.len()).partition(|&i| done[i].correct);
        chance.at("failures", &place).shuffle(&mut bad);
        bad.truncate(self.failures(bad.len(), good.len(), size));
        let mut draws = chance.at("successes", &place);
        let mut weights: Vec<f64> = good.iter().map(|&i| 1.0 / (penalty(&done[i]) + self.smoothing)).collect();
        let mut kept = vec![false; done.len()];
        bad.iter().for_each(|&i| kept[i] = true);
        for _ in bad.len()..size {
            let Some(k) = draws.weighted(&weights) else { break };
            kept[good[k]] = true;
            good.swap_remove(k);
            weights.swap_remove(k);
        }
        kept
    }
    /// Returns the number of failures to keep so that `size` rollouts stay: the failures' share of all rollouts,
    /// limited by the minimum and by the size of each class.
    fn failures(&self, bad: usize, good: usize, size: usize) -> usize {
        let all = bad + good;
        let share = (2 * bad * size + all) / (2 * all);
        let owed = (self.least as usize).min(size / 2);
        share.clamp(owed.min(bad).max(size.saturating_sub(good)), bad.min(size - owed.min(good)))
    }
}

/// Returns p_err, the share of tool calls that failed; 0.5 without a call.
fn error_rate(rollout: &Rollout) -> f64 {
    let (calls, errors) = (rollout.trajectory.tool_calls, rollout.trajectory.tool_errors);
    let all = calls.max(errors);
    if all == 0 { 0.5 } else { f64::from(errors) / f64::from(all) }
}

/// Returns p_err + p_fmt.
fn penalty(rollout: &Rollout) -> f64 {
    let answers = rollout.turns.iter().filter(|t| t.answered).count();
    let format = if answers == 0 { 1.0 } else { ((answers - 1) as f64 / rollout.turns.len() as f64).min(1.0) };
    error_rate(rollout) + format
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TurnSummary;
    use trainyard_tables::Trajectory;

    fn rollout(sample: u32, correct: bool, tool_calls: u32, tool_errors: u32) -> Rollout {
        let turns = vec![TurnSummary::default(), TurnSummary { answered: correct, ..TurnSummary::default() }];
        let trajectory = Trajectory { sample, tool_calls, tool_errors, ..Trajectory::default() };
        Rollout { trajectory, correct, turns, ..Rollout::default() }
    }
    /// Returns the rollouts that the strategy keeps.
    fn select(part: &mut ResampleOnCorrect, done: Vec<Rollout>, size: u32, seed: u64) -> Vec<Rollout> {
        let kept = part.select(&done, size, &Chance::new(seed));
        assert_eq!(kept.len(), done.len());
        done.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(r, _)| r).collect()
    }
    /// Returns a group in which failures come first.
    fn group(bad: u32, good: u32) -> Vec<Rollout> {
        (0..bad + good).map(|i| rollout(i, i >= bad, 2, i % 3)).collect()
    }

    #[test]
    fn penalties_match_hand_computation() {
        assert_eq!(error_rate(&rollout(0, true, 4, 1)), 0.25);
        assert_eq!(error_rate(&rollout(0, true, 0, 0)), 0.5);
        assert_eq!(penalty(&rollout(0, true, 4, 1)), 0.25);
        assert_eq!(penalty(&rollout(0, false, 4, 0)), 1.0, "no answer");
        let twice = Rollout {
            turns: vec![TurnSummary { answered: true, ..TurnSummary::default() }; 2],
            ..rollout(0, true, 1, 1)
        };
        assert_eq!(penalty(&twice), 1.5, "one call that failed; two answers in two turns");
    }

    #[test]
    fn both_classes_shrink_alike() {
        let part = ResampleOnCorrect::default();
        for (bad, good, size, expected) in [
            (4, 12, 8, 2),
            (8, 8, 8, 4),
            (3, 13, 8, 2),
            (5, 11, 8, 3),
            (16, 0, 8, 8),
            (0, 16, 8, 0),
            (7, 1, 4, 3),
            (1, 7, 4, 1),
        ] {
            assert_eq!(part.failures(bad, good, size), expected, "{bad} failures, {good} successes, {size} kept");
        }
        let strict = ResampleOnCorrect { least: 2, ..ResampleOnCorrect::default() };
        assert_eq!(strict.failures(1, 15, 8), 1, "there is only one");
        assert_eq!(strict.failures(2, 14, 8), 2);
        assert_eq!(ResampleOnCorrect { least: 0, ..strict }.failures(15, 1, 8), 8, "7.5 of 15, rounded half up");
    }

    #[test]
    fn placebo_keeps_rollouts_at_random() {
        let mut part = ResampleOnCorrect { by_chance: true, ..ResampleOnCorrect::default() };
        let right = |seed| select(&mut part, group(12, 4), 8, seed).iter().filter(|r| r.correct).count();
        let counts: Vec<usize> = (0..300).map(right).collect();
        let mean = counts.iter().sum::<usize>() as f64 / 300.0;
        assert!((mean - 2.0).abs() < 0.2, "{mean} of 4 right ones, where half are expected");
        assert!(counts.contains(&0) && counts.contains(&4), "no class is kept on purpose");
    }

    #[test]
    fn group_size_rollouts_are_kept_in_order() {
        for seed in 0..6 {
            for (bad, good) in (0..=9).flat_map(|b| (0..=9).map(move |g| (b, g))) {
                for (size, least) in [(1, 0), (3, 1), (4, 2), (6, 5), (20, 1)] {
                    let mut part = ResampleOnCorrect { least, ..ResampleOnCorrect::default() };
                    let kept = select(&mut part, group(bad, good), size, seed);
                    assert_eq!(kept.len() as u32, size.min(bad + good));
                    assert!(kept.windows(2).all(|w| w[0].trajectory.sample < w[1].trajectory.sample));
                }
            }
        }
    }

    #[test]
    fn clean_successes_are_preferred_and_failures_are_random() {
        let mut part = ResampleOnCorrect::default();
        let done = || (0..16).map(|i| rollout(i, i >= 8, 2, i % 2)).collect::<Vec<Rollout>>();
        let mut bad = [0; 8];
        let mut dirty = 0;
        for seed in 0..400 {
            for r in select(&mut part, done(), 8, seed) {
                if r.correct {
                    dirty += r.trajectory.tool_errors;
                } else {
                    bad[r.trajectory.sample as usize] += 1;
                }
            }
        }
        // Weights 100 against 1.96: in over nine of ten draws the last of four clean ones is taken before four dirty
        // ones.
        assert!(dirty > 0 && dirty < 200, "of 1600 successes {dirty} had an error");
        assert!(
            bad.iter().all(|&n| (140..260).contains(&n)),
            "each failure in about half of the draws, errors or not: {bad:?}"
        );
    }

    #[test]
    fn metrics_are_means_over_successes() {
        let mut part = ResampleOnCorrect { smoothing: 1e-12, ..ResampleOnCorrect::default() };
        part.start(
            &Draw { problems: vec![0], ..Draw::default() },
            &ProblemPool::default(),
            2,
            Progress::default(),
            &Chance::new(0),
        );
        let done =
            vec![rollout(0, true, 2, 1), rollout(1, false, 2, 2), rollout(2, true, 2, 0), rollout(3, false, 0, 0)];
        let kept = select(&mut part, done, 2, 1);
        assert_eq!(kept.iter().filter(|r| r.correct).map(|r| r.trajectory.sample).collect::<Vec<_>>(), [2]);
        assert_eq!(
            part.metrics(),
            [("sampled_error_rate", 0.25), ("selected_error_rate", 0.0), ("error_rate_removed", 0.25)]
        );
    }

    #[test]
    fn starts_more_than_it_keeps() {
        let mut part = ResampleOnCorrect { oversample: 3, ..ResampleOnCorrect::default() };
        let draw = Draw { problems: vec![4, 5], ..Draw::default() };
        assert_eq!(part.start(&draw, &ProblemPool::default(), 4, Progress::default(), &Chance::new(0)).len(), 24);
        assert_eq!(part.max_sequences(4), 12);
    }

    #[test]
    fn impossible_options_are_rejected() {
        assert!(!ResampleOnCorrect { oversample: 0, ..ResampleOnCorrect::default() }.check().is_empty());
        assert!(!ResampleOnCorrect { smoothing: 0.0, ..ResampleOnCorrect::default() }.check().is_empty());
        assert!(!ResampleOnCorrect { smoothing: f64::NAN, ..ResampleOnCorrect::default() }.check().is_empty());
    }
}
