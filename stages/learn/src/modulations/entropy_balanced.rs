//! Implements `entropy_balanced` (AEPO), which enlarges the advantages of uncertain tokens. An agent decides at tokens
//! of high entropy, which are often the first after a tool result (2510.14545). The entropy only scales a constant; it
//! has no gradient.

use crate::batch::{Batch, TokenGrid};
use crate::part::{Modulation, Needs, RlPart};
use crate::statistics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Tokens whose entropies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntropyScope {
    /// Tokens of the group.
    #[default]
    Group,
    /// Tokens of the batch.
    Batch,
}

/// Options of `entropy_balanced`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyBalancedModulation {
    /// Increase of the factor per standard deviation of entropy; 0 = factor 1.
    pub a: f64,
    /// Whether mean and deviation of entropies are those of the group or of the batch.
    pub over: EntropyScope,
    /// Metric of the last batch; `None` if all entropies were equal.
    #[serde(skip)]
    last_tilt: Option<f64>,
}

impl Default for EntropyBalancedModulation {
    fn default() -> Self {
        Self { a: 0.2, over: EntropyScope::Group, last_tilt: None }
    }
}

impl PartOptions for EntropyBalancedModulation {
    const KIND: &'static str = "entropy_balanced";
    const SUMMARY: &'static str = "advantages scaled by the uncertainty of their token (AEPO)";
    const DOC: &'static str = "A ← A·(1 + a·A_H), where A_H = (H − mean)/std of the token's entropy over all\n\
        tokens of its group in the loss (std with ddof 1; A_H = 0 where all entropies are equal). The paper\n\
        normalizes within the group; public code uses all tokens of the batch (`over: batch`) and an `a` of 0.2. A\n\
        token more than 1/a deviations below the mean would change its sign; entropies are at least 0, so with 0.2\n\
        the mean would have to exceed five deviations. Needs entropies. Source: 2510.14545.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("tilt", "factor", "Mean factor of tokens above the mean entropy minus that of the others.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("entropy_tilt"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::not_finite("/a", self.a).into_iter().collect()
    }
}

impl RlPart for EntropyBalancedModulation {
    fn needs(&self) -> Needs {
        Needs { rollout_entropies: true, groups: self.over == EntropyScope::Group, ..Needs::NONE }
    }
}

impl Modulation for EntropyBalancedModulation {
    fn apply(&mut self, batch: &Batch, advantages: &mut TokenGrid) {
        let mut above = Mean::default();
        let mut others = Mean::default();
        for rows in self.comparable(batch) {
            let tokens = tokens(batch, rows);
            let Some((mean, deviation)) = moments(&tokens) else { continue };
            for token in &tokens {
                let z = (token.entropy - mean) / deviation;
                let factor = 1.0 + self.a * z;
                advantages[token.row][token.t] *= factor;
                if z > 0.0 { above.add(factor) } else { others.add(factor) }
            }
        }
        self.last_tilt = above.value().zip(others.value()).map(|(above, others)| above - others);
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.last_tilt.map(|t| ("tilt", t)).into_iter().collect()
    }
}

impl EntropyBalancedModulation {
    /// Returns ranges of grid rows whose tokens are compared with each other.
    fn comparable(&self, batch: &Batch) -> Vec<Range<usize>> {
        if self.over == EntropyScope::Batch {
            return std::iter::once(0..batch.len()).collect();
        }
        let mut first = 0;
        let range = |n: usize| {
            first += n;
            first - n..first
        };
        batch.groups.iter().map(|g| g.rollouts.len()).map(range).collect()
    }
}

/// Token in the loss.
struct TokenEntropy {
    row: usize,
    t: usize,
    entropy: f64,
}

fn tokens(batch: &Batch, rows: Range<usize>) -> Vec<TokenEntropy> {
    let mut tokens = Vec::new();
    for (row, rollout) in batch.rollouts().enumerate().skip(rows.start).take(rows.len()) {
        let entropies = rollout.entropies.as_ref().expect("`needs` includes entropies");
        tokens.extend((0..rollout.mask.len()).filter(|&t| rollout.mask[t]).map(|t| TokenEntropy {
            row,
            t,
            entropy: entropies[t],
        }));
    }
    tokens
}

/// Returns the mean and standard deviation (ddof 1) of the entropies, or `None` if they do not differ.
fn moments(tokens: &[TokenEntropy]) -> Option<(f64, f64)> {
    let entropies: Vec<f64> = tokens.iter().map(|t| t.entropy).collect();
    let deviation = statistics::deviation(&entropies, 1).filter(|d| *d > 0.0)?;
    Some((statistics::mean(&entropies)?, deviation))
}

#[derive(Default)]
struct Mean {
    sum: f64,
    n: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1.0;
    }
    fn value(&self) -> Option<f64> {
        if self.n > 0.0 { Some(self.sum / self.n) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, Rollout};

    /// Returns a rollout of a prompt token, then the given entropies.
    fn rollout(entropies: &[f64]) -> Rollout {
        Rollout {
            mask: std::iter::once(false).chain(entropies.iter().map(|_| true)).collect(),
            entropies: Some(std::iter::once(7.0).chain(entropies.iter().copied()).collect()),
            ..Rollout::default()
        }
    }
    fn batch(groups: &[&[&[f64]]]) -> Batch {
        let group = |g: &&[&[f64]]| Group { rollouts: g.iter().map(|r| rollout(r)).collect(), ..Group::default() };
        Batch { step: 0, groups: groups.iter().map(group).collect() }
    }
    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?} is not {expected:?}");
    }

    #[test]
    fn one_group_matches_hand_computation() {
        let batch = batch(&[&[&[0.0, 2.0], &[1.0, 1.0]]]);
        let mut a = batch.spread(&[1.0, -3.0]);
        let mut part = EntropyBalancedModulation::default();
        part.apply(&batch, &mut a);
        // Mean 1, variance 2/3.
        let z = 1.5f64.sqrt();
        near(&a[0], &[0.0, 1.0 - 0.2 * z, 1.0 + 0.2 * z]);
        near(&a[1], &[0.0, -3.0, -3.0]);
        let tilt = 1.0 + 0.2 * z - (3.0 - 0.2 * z) / 3.0;
        assert!((part.metrics()[0].1 - tilt).abs() < 1e-12 && part.metrics()[0].0 == "tilt");
    }

    #[test]
    fn sum_of_equal_advantages_in_a_group_is_unchanged() {
        let batch = batch(&[&[&[0.1, 0.9, 0.4], &[2.0]], &[&[0.0, 5.0], &[1.0, 1.0, 0.2]]]);
        for (a, over) in [
            (0.2, EntropyScope::Group),
            (1.0, EntropyScope::Group),
            (-0.3, EntropyScope::Group),
            (0.2, EntropyScope::Batch),
        ] {
            let mut grid = batch.spread(&[1.0; 4]);
            EntropyBalancedModulation { a, over, last_tilt: None }.apply(&batch, &mut grid);
            let sums: Vec<f64> = grid.iter().map(|row| row.iter().sum()).collect();
            assert!((sums.iter().sum::<f64>() - 9.0).abs() < 1e-9, "{sums:?}");
            assert_eq!((sums[0] + sums[1] - 4.0).abs() < 1e-9, over == EntropyScope::Group, "{sums:?}");
        }
    }

    #[test]
    fn batch_compares_across_groups() {
        let batch = batch(&[&[&[0.0], &[0.0]], &[&[2.0], &[2.0]]]);
        let mut grid = batch.spread(&[1.0; 4]);
        let mut part = EntropyBalancedModulation::default();
        part.apply(&batch, &mut grid);
        assert_eq!(grid, batch.spread(&[1.0; 4]), "no spread within the groups");
        assert!(part.metrics().is_empty());
        EntropyBalancedModulation { over: EntropyScope::Batch, ..EntropyBalancedModulation::default() }
            .apply(&batch, &mut grid);
        let z = 0.75f64.sqrt();
        near(&grid[0], &[0.0, 1.0 - 0.2 * z]);
        near(&grid[3], &[0.0, 1.0 + 0.2 * z]);
    }

    #[test]
    fn factor_must_be_finite() {
        assert!(
            !EntropyBalancedModulation { a: f64::INFINITY, ..EntropyBalancedModulation::default() }.check().is_empty()
        );
        assert!(EntropyBalancedModulation::default().needs().groups);
        assert!(
            !EntropyBalancedModulation { over: EntropyScope::Batch, ..EntropyBalancedModulation::default() }
                .needs()
                .groups
        );
    }
}
