//! Implements `information_gain` (IGPO), which rewards each turn by the increase of the probability of the gold answer.
//!
//! An outcome contains no information about single turns. The change of the policy's probability of the gold answer in
//! a turn contains such information without a judge, and gives a signal even in groups with equal outcomes
//! (2510.14967).

use crate::batch::{Batch, Rollout, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Values over which turn rewards are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// Gains and outcomes of the group together.
    #[default]
    Joint,
    /// Gains and outcomes separately.
    Separate,
}

/// Options of `information_gain`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InformationGain {
    /// Whether gains and outcomes of a group are normalized together (joint) or separately (separate).
    pub normalize: Normalize,
    /// Discount factor per turn.
    #[schemars(range(min = 0, max = 1))]
    pub gamma: f64,
    /// 1 = sample standard deviation, 0 = population.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// Term added to the standard deviation.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
    /// Mean gain of the last batch; `None` if no turn had one.
    #[serde(skip)]
    last_gain: Option<f64>,
}

impl Default for InformationGain {
    fn default() -> Self {
        Self { normalize: Normalize::Joint, gamma: 1.0, ddof: 0, epsilon: 1e-6, last_gain: None }
    }
}

impl PartOptions for InformationGain {
    const KIND: &'static str = "information_gain";
    const SUMMARY: &'static str = "turns rewarded by the gain in probability of the gold answer (IGPO)";
    const DOC: &'static str = "p_k = exp(mean logprob of the gold answer at the start of turn k) under the sampling\n\
        policy. Turn rewards: r_k = p_{k+1} − p_k for all turns but the last, whose reward is that of the rollout.\n\
        r~ = (r − mean) / (std + epsilon) over all turn rewards of the group (joint), or over its gains and its\n\
        outcomes separately (separate). A_k = r~_k + gamma·A_{k+1} for every token of turn k in the loss.\n\n\
        A turn with an unknown gain has r~ = 0 and does not enter mean and std. A gain of exactly 0 does, while the\n\
        released code leaves it out; ddof 0 and gamma 1 are the released code's values. Needs forced scores, several\n\
        turns, and groups. Source: 2510.14967.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("gain", "nats", "Mean gain of a turn, before normalization.")
                .higher()
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("information_gain"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let gamma = OptionProblem::out_of_range("/gamma", self.gamma, 0.0..=1.0);
        gamma.into_iter().chain(super::deviation_options(self.ddof, self.epsilon)).collect()
    }
}

impl RlPart for InformationGain {
    fn needs(&self) -> Needs {
        Needs { forced_scores: true, multi_turn: true, groups: true, ..Needs::NONE }
    }
}

impl Advantage for InformationGain {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let mut grid = TokenGrid::with_capacity(batch.len());
        let mut known: Vec<f64> = Vec::new();
        for group in &batch.groups {
            let gains: Vec<Vec<Option<f64>>> = group.rollouts.iter().map(gains).collect();
            let outcomes: Vec<f64> = group.rollouts.iter().map(|r| r.trajectory.reward).collect();
            known.extend(gains.iter().flatten().flatten());
            let turns = self.of_group(&gains, &outcomes);
            grid.extend(group.rollouts.iter().zip(turns).map(|(r, turns)| spread(r, &turns)));
        }
        self.last_gain = if known.is_empty() { None } else { Some(super::mean(&known)) };
        grid
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.last_gain.map(|gain| ("gain", gain)).into_iter().collect()
    }
}

impl InformationGain {
    /// Computes the advantages of one group: `[rollout][turn]`.
    fn of_group(&self, gains: &[Vec<Option<f64>>], outcomes: &[f64]) -> Vec<Vec<f64>> {
        let known: Vec<f64> = gains.iter().flatten().flatten().copied().collect();
        let moments = |values: &[f64]| super::moments(values, self.ddof, self.epsilon);
        let (of_gains, of_outcomes) = match self.normalize {
            Normalize::Joint => {
                let all = moments(&[known.as_slice(), outcomes].concat());
                (all, all)
            }
            Normalize::Separate => (moments(&known), moments(outcomes)),
        };
        let row = |(gains, &outcome): (&Vec<Option<f64>>, &f64)| {
            let mut after = super::standard(outcome, of_outcomes);
            let mut turns = vec![after; gains.len() + 1];
            for (k, gain) in gains.iter().enumerate().rev() {
                after = gain.map_or(0.0, |g| super::standard(g, of_gains)) + self.gamma * after;
                turns[k] = after;
            }
            turns
        };
        gains.iter().zip(outcomes).map(row).collect()
    }
}

/// Returns the gain of every turn but the last, or `None` for a turn before or after which the gold answer was not
/// scored.
fn gains(rollout: &Rollout) -> Vec<Option<f64>> {
    let gold = rollout.gold_logprobs.as_ref().expect("`needs` includes forced scores");
    (1..rollout.turns.len()).map(|k| Some(gold.get(k)?.exp() - gold.get(k - 1)?.exp())).collect()
}

/// Assigns each turn's number to its tokens in the loss.
fn spread(rollout: &Rollout, turns: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; rollout.mask.len()];
    for (turn, &a) in rollout.turns.iter().zip(turns) {
        for t in (turn.first..turn.end.min(row.len())).filter(|&t| rollout.mask[t]) {
            row[t] = a;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, TurnSummary};
    use trainyard_tables::Trajectory;

    /// Returns a rollout of a prompt token, then two sampled tokens and an observation per turn.
    fn rollout(reward: f64, probabilities: &[f64], turns: usize) -> Rollout {
        let turn = |k: usize| TurnSummary { first: 1 + 3 * k, end: 3 + 3 * k, ..TurnSummary::default() };
        Rollout {
            trajectory: Trajectory { reward, ..Trajectory::default() },
            mask: std::iter::once(false).chain([true, true, false].into_iter().cycle().take(3 * turns)).collect(),
            turns: (0..turns).map(turn).collect(),
            gold_logprobs: Some(probabilities.iter().map(|p| p.ln()).collect()),
            ..Rollout::default()
        }
    }
    fn assign(part: &mut InformationGain, groups: Vec<Vec<Rollout>>) -> Vec<Vec<f64>> {
        let masks: Vec<Vec<bool>> = groups.iter().flatten().map(|r| r.mask.clone()).collect();
        let groups = groups.into_iter().map(|rollouts| Group { rollouts, ..Group::default() }).collect();
        let grid = part.assign(&Batch { step: 0, groups });
        for (row, mask) in grid.iter().zip(&masks) {
            assert_eq!(row.len(), mask.len());
            assert!(row.iter().zip(mask).all(|(a, m)| *m || *a == 0.0), "masked tokens get 0");
            assert!(row[1..].chunks(3).all(|turn| turn[0] == turn[1]), "one number per turn");
        }
        grid.iter().map(|row| row[1..].iter().step_by(3).copied().collect()).collect()
    }
    fn near(found: &[Vec<f64>], expected: &[&[f64]]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(*expected).all(|(f, w)| (f - w).abs() < 1e-9), "{found:?} is not {expected:?}");
        }
    }
    fn two() -> Vec<Rollout> {
        vec![rollout(1.0, &[0.2, 0.5], 2), rollout(0.0, &[0.2, 0.1], 2)]
    }

    #[test]
    fn joint_normalization_matches_hand_computation() {
        // Gains 0.3 and −0.1, outcomes 1 and 0: mean 0.3, variance 0.185.
        let s = 0.185f64.sqrt();
        let mut part = InformationGain { epsilon: 0.0, ..InformationGain::default() };
        near(&assign(&mut part, vec![two()]), &[&[0.7 / s, 0.7 / s], &[-0.7 / s, -0.3 / s]]);
        part.gamma = 0.5;
        near(&assign(&mut part, vec![two()]), &[&[0.35 / s, 0.7 / s], &[-0.55 / s, -0.3 / s]]);
        assert!((part.metrics()[0].1 - 0.1).abs() < 1e-12);
        assert_eq!(part.metrics()[0].0, "gain");
    }

    #[test]
    fn separate_normalization_matches_hand_computation() {
        let mut part = InformationGain { normalize: Normalize::Separate, epsilon: 0.0, ..InformationGain::default() };
        near(&assign(&mut part, vec![two()]), &[&[2.0, 1.0], &[-2.0, -1.0]]);
        // Equal outcomes: only the gains count.
        let equal = vec![rollout(1.0, &[0.2, 0.5], 2), rollout(1.0, &[0.2, 0.1], 2)];
        near(&assign(&mut part, vec![equal]), &[&[1.0, 0.0], &[-1.0, 0.0]]);
    }

    #[test]
    fn gains_sum_to_the_change_over_all_turns() {
        let four = rollout(0.0, &[0.1, 0.4, 0.3, 0.9], 4);
        let sum: f64 = gains(&four).into_iter().flatten().sum();
        assert!((sum - 0.8).abs() < 1e-12);
    }

    #[test]
    fn equals_grpo_without_gains() {
        let one_turn = vec![rollout(1.0, &[0.5], 1), rollout(0.0, &[0.5], 1)];
        let unscored = vec![rollout(1.0, &[], 3), rollout(0.0, &[], 3)];
        for normalize in [Normalize::Joint, Normalize::Separate] {
            let mut part = InformationGain { normalize, epsilon: 0.0, ..InformationGain::default() };
            near(&assign(&mut part, vec![one_turn.clone()]), &[&[1.0], &[-1.0]]);
            near(&assign(&mut part, vec![unscored.clone()]), &[&[1.0, 1.0, 1.0], &[-1.0, -1.0, -1.0]]);
            assert!(part.metrics().is_empty());
        }
    }

    #[test]
    fn groups_do_not_mix() {
        let other = vec![rollout(0.0, &[0.9, 0.9], 2), rollout(5.0, &[0.1, 0.9], 2)];
        let mut part = InformationGain::default();
        let alone = assign(&mut part, vec![two()]);
        let both = assign(&mut part, vec![two(), other]);
        assert_eq!(both[..2], alone[..]);
        assert!((part.metrics()[0].1 - 0.25).abs() < 1e-12, "gains 0.3, −0.1, 0 and 0.8");
    }

    #[test]
    fn gamma_is_between_zero_and_one() {
        assert_eq!(InformationGain { gamma: -0.1, ..InformationGain::default() }.check()[0].pointer, "/gamma");
        assert!(!InformationGain { ddof: 2, ..InformationGain::default() }.check().is_empty());
    }
}
