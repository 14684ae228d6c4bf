//! Implements `stratified` (Stratified GRPO), which compares a rollout with the rollouts of its group that made as many
//! tool calls.
//!
//! Rollouts with no, one and three calls have different reward distributions. A common mean therefore adds the same
//! offset to every rollout of a stratum, regardless of its actions (2510.06214, cross-stratum bias). Small strata are
//! noisy, so the comparison with the whole group is blended in.

use crate::batch::{Batch, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Options of `stratified`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StratifiedAdvantage {
    /// Weight of the comparison within the stratum; the rest goes to the comparison with the whole group.
    #[schemars(range(min = 0, max = 1))]
    pub alpha: f64,
    /// Divide by standard deviations: of the stratum and of the group.
    pub scale: bool,
    /// 1 = sample standard deviation, 0 = population.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// Term added to every standard deviation.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
    /// Gap of the last batch; `None` if no group had two strata.
    #[serde(skip)]
    last_gap: Option<f64>,
}

impl Default for StratifiedAdvantage {
    fn default() -> Self {
        Self { alpha: 0.8, scale: true, ddof: 1, epsilon: 1e-6, last_gap: None }
    }
}

impl PartOptions for StratifiedAdvantage {
    const KIND: &'static str = "stratified";
    const SUMMARY: &'static str =
        "reward relative to rollouts with as many tool calls, blended with the group (Stratified GRPO)";
    const DOC: &'static str = "A = alpha·(R − μ_k)/(σ_k + epsilon) + (1 − alpha)·(R − μ)/(σ + epsilon).\n\
        Stratum k holds the rollouts of the group with k tool calls; μ and σ without index are those of the whole\n\
        group. Every token of a rollout gets the same advantage. Without `scale` the divisors are 1.\n\n\
        Without scales R − μ = (R − μ_k) + (μ_k − μ) holds exactly, and alpha 1 removes the second term.\n\
        Alpha 0, or a single stratum, is GRPO (`group`). The only member of a stratum gets 0 from it.\n\
        Source: 2510.06214.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new(
                "gap",
                "advantage",
                "Largest minus smallest mean advantage among the strata of a group, averaged over groups with several.",
            )
            .reduced_by(Reduce::Whole)
            .optional()
            .former_name("stratum_gap"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let alpha = OptionProblem::out_of_range("/alpha", self.alpha, 0.0..=1.0);
        alpha.into_iter().chain(super::deviation_options(self.ddof, self.epsilon)).collect()
    }
}

impl RlPart for StratifiedAdvantage {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Advantage for StratifiedAdvantage {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let mut values = Vec::with_capacity(batch.len());
        let mut gaps = Vec::new();
        for group in &batch.groups {
            let rewards: Vec<f64> = group.rollouts.iter().map(|r| r.trajectory.reward).collect();
            let strata: Vec<u32> = group.rollouts.iter().map(|r| r.trajectory.tool_calls).collect();
            let advantages = self.of_group(&rewards, &strata);
            gaps.extend(gap(&advantages, &strata));
            values.extend(advantages);
        }
        self.last_gap = if gaps.is_empty() { None } else { Some(super::mean(&gaps)) };
        batch.spread(&values)
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.last_gap.map(|gap| ("gap", gap)).into_iter().collect()
    }
}

impl StratifiedAdvantage {
    fn of_group(&self, rewards: &[f64], strata: &[u32]) -> Vec<f64> {
        let mut advantages: Vec<f64> = self.compare(rewards).iter().map(|a| (1.0 - self.alpha) * a).collect();
        for members in members(strata).values() {
            let stratum: Vec<f64> = members.iter().map(|&i| rewards[i]).collect();
            for (&i, a) in members.iter().zip(self.compare(&stratum)) {
                advantages[i] += self.alpha * a;
            }
        }
        advantages
    }
    fn compare(&self, rewards: &[f64]) -> Vec<f64> {
        if self.scale {
            return super::standardize(rewards, self.ddof, self.epsilon);
        }
        let mean = super::mean(rewards);
        rewards.iter().map(|r| r - mean).collect()
    }
}

/// Decomposes the unscaled advantage R − μ of each rollout of a group into (R − μ_k, μ_k − μ). The second
/// term is equal for all rollouts of a stratum (2510.06214).
pub fn decompose(rewards: &[f64], strata: &[u32]) -> Vec<(f64, f64)> {
    let mean = super::mean(rewards);
    let mut parts = vec![(0.0, 0.0); rewards.len()];
    for members in members(strata).values() {
        let stratum = super::mean(&members.iter().map(|&i| rewards[i]).collect::<Vec<_>>());
        for &i in members {
            parts[i] = (rewards[i] - stratum, stratum - mean);
        }
    }
    parts
}

/// Maps each stratum to the indexes of its rollouts in the group.
fn members(strata: &[u32]) -> BTreeMap<u32, Vec<usize>> {
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, &stratum) in strata.iter().enumerate() {
        members.entry(stratum).or_default().push(i);
    }
    members
}

/// Returns the difference between the largest and the smallest mean of a stratum, or `None` if there is only one
/// stratum.
fn gap(advantages: &[f64], strata: &[u32]) -> Option<f64> {
    let strata = members(strata);
    if strata.len() < 2 {
        return None;
    }
    let means = strata.values().map(|m| super::mean(&m.iter().map(|&i| advantages[i]).collect::<Vec<_>>()));
    let (lowest, highest) =
        means.fold((f64::INFINITY, f64::NEG_INFINITY), |(lowest, highest), m| (lowest.min(m), highest.max(m)));
    Some(highest - lowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantages::group::GroupAdvantage;
    use crate::batch::{Group as Rollouts, Rollout};
    use trainyard_tables::Trajectory;

    const REWARDS: [f64; 6] = [1.0, 0.0, 0.25, 2.0, -1.0, 0.5];
    const CALLS: [u32; 6] = [0, 3, 0, 3, 3, 1];

    fn batch(groups: &[(&[f64], &[u32])]) -> Batch {
        let rollout = |(&reward, &tool_calls): (&f64, &u32)| Rollout {
            trajectory: Trajectory { reward, tool_calls, ..Trajectory::default() },
            mask: vec![false, true],
            ..Rollout::default()
        };
        let group = |(r, c): &(&[f64], &[u32])| Rollouts {
            rollouts: r.iter().zip(c.iter()).map(rollout).collect(),
            ..Rollouts::default()
        };
        Batch { step: 0, groups: groups.iter().map(group).collect() }
    }
    fn assign(part: &mut impl Advantage, groups: &[(&[f64], &[u32])]) -> Vec<f64> {
        let grid = part.assign(&batch(groups));
        assert!(grid.iter().all(|row| row[0] == 0.0), "masked tokens get 0");
        grid.iter().map(|row| row[1]).collect()
    }
    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?} is not {expected:?}");
    }

    #[test]
    fn group_advantage_is_the_stratums_plus_an_offset() {
        let within = assign(
            &mut StratifiedAdvantage { alpha: 1.0, scale: false, ..StratifiedAdvantage::default() },
            &[(&REWARDS, &CALLS)],
        );
        let global = assign(
            &mut StratifiedAdvantage { alpha: 0.0, scale: false, ..StratifiedAdvantage::default() },
            &[(&REWARDS, &CALLS)],
        );
        let parts = decompose(&REWARDS, &CALLS);
        near(&within, &parts.iter().map(|p| p.0).collect::<Vec<_>>());
        near(&global, &parts.iter().map(|p| p.0 + p.1).collect::<Vec<_>>());
        // μ = 2.75/6; μ_0 = 0.625, μ_1 = 0.5, μ_3 = 1/3.
        near(&within, &[0.375, -1.0 / 3.0, -0.375, 5.0 / 3.0, -4.0 / 3.0, 0.0]);
        for (part, stratum) in parts.iter().zip([0.625, 1.0 / 3.0, 0.625, 1.0 / 3.0, 1.0 / 3.0, 0.5]) {
            assert!((part.1 - (stratum - 2.75 / 6.0)).abs() < 1e-12);
        }
    }

    #[test]
    fn strata_have_mean_zero_and_variance_one() {
        for ddof in [0, 1] {
            let a = assign(
                &mut StratifiedAdvantage { alpha: 1.0, ddof, epsilon: 0.0, ..StratifiedAdvantage::default() },
                &[(&REWARDS, &CALLS)],
            );
            for members in members(&CALLS).values().filter(|m| m.len() > 1) {
                let stratum: Vec<f64> = members.iter().map(|&i| a[i]).collect();
                let variance = stratum.iter().map(|x| x * x).sum::<f64>() / (stratum.len() as f64 - f64::from(ddof));
                assert!(stratum.iter().sum::<f64>().abs() < 1e-12 && (variance - 1.0).abs() < 1e-12, "{stratum:?}");
            }
            assert_eq!(a[5], 0.0, "a single member has no peers");
        }
    }

    #[test]
    fn equals_grpo_with_one_stratum_or_alpha_zero() {
        let grpo = assign(&mut GroupAdvantage::default(), &[(&REWARDS, &CALLS)]);
        near(
            &assign(&mut StratifiedAdvantage { alpha: 0.0, ..StratifiedAdvantage::default() }, &[(&REWARDS, &CALLS)]),
            &grpo,
        );
        for alpha in [0.0, 0.3, 0.8, 1.0] {
            near(
                &assign(&mut StratifiedAdvantage { alpha, ..StratifiedAdvantage::default() }, &[(&REWARDS, &[2; 6])]),
                &grpo,
            );
        }
    }

    #[test]
    fn blend_matches_hand_computation() {
        // Strata (1, 0) and (1): ±1 and 0 within; the group has mean 2/3 and population deviation √2/3.
        let mut part = StratifiedAdvantage { alpha: 0.5, ddof: 0, epsilon: 0.0, ..StratifiedAdvantage::default() };
        let a = assign(&mut part, &[(&[1.0, 0.0, 1.0], &[0, 0, 2])]);
        let root = 2.0f64.sqrt();
        near(&a, &[0.5 + 0.5 / root, -0.5 - 0.5 * root, 0.5 / root]);
    }

    #[test]
    fn gap_between_strata_is_zero_with_alpha_one() {
        let groups: [(&[f64], &[u32]); 3] =
            [(&[1.0, 0.0, 1.0, 1.0], &[0, 0, 1, 1]), (&[0.0, 1.0], &[0, 4]), (&[1.0, 0.0], &[1, 1])];
        let mut part = StratifiedAdvantage { alpha: 0.0, scale: false, ..StratifiedAdvantage::default() };
        assign(&mut part, &groups);
        assert_eq!(part.metrics(), [("gap", 0.75)], "0.5 and 1; the third group has one stratum");
        part.alpha = 1.0;
        assign(&mut part, &groups);
        assert_eq!(part.metrics(), [("gap", 0.0)]);
        assign(&mut part, &groups[2..]);
        assert!(part.metrics().is_empty());
    }

    #[test]
    fn alpha_is_between_zero_and_one() {
        assert_eq!(StratifiedAdvantage { alpha: 1.1, ..StratifiedAdvantage::default() }.check()[0].pointer, "/alpha");
        assert!(!StratifiedAdvantage { epsilon: f64::NAN, ..StratifiedAdvantage::default() }.check().is_empty());
    }
}
