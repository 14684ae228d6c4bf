//! Implements `gdpo`, which normalizes each reward component within its group before it adds the components.
//!
//! Normalizing the sum, as GRPO does, gives different mixtures of rewards the same advantage and lets the component
//! with the largest spread dominate (2601.05242). The weights of the reward list do not apply to this part.

use crate::batch::{Batch, Rollout, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `gdpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gdpo {
    /// Weight of each component by name; 1 for components not listed.
    pub weights: BTreeMap<String, f64>,
    /// Normalize the sums to zero mean and unit deviation over all rollouts of the batch.
    pub whiten: bool,
    /// 1 = sample standard deviation, 0 = population.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// Term added to every standard deviation.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
}

impl Default for Gdpo {
    fn default() -> Self {
        Self { weights: BTreeMap::new(), whiten: true, ddof: 1, epsilon: 1e-6 }
    }
}

impl PartOptions for Gdpo {
    const KIND: &'static str = "gdpo";
    const SUMMARY: &'static str = "each reward component normalized in its group, then summed and whitened (GDPO)";
    const DOC: &'static str = "A = Σ_c weights[c]·(r_c − mean_c) / (std_c + epsilon), with mean and std over the\n\
        rollouts of the group that have component c. Components are unweighted and named as the reward list records\n\
        them. With `whiten`, A becomes (A − mean) / (std + epsilon) over all rollouts of the batch, as in the\n\
        paper; to whiten over tokens instead, turn it off and add the modulation `whiten`. Every token of a rollout\n\
        gets the same advantage.\n\n\
        A rollout without a component gets 0 for it, and so do all rollouts if the component has no spread. Names in\n\
        `weights` that no reward has are ignored. Source: 2601.05242.";
    fn check(&self) -> Vec<OptionProblem> {
        let weights =
            self.weights.iter().filter_map(|(name, w)| OptionProblem::not_finite(format!("/weights/{name}"), *w));
        weights.chain(super::deviation_options(self.ddof, self.epsilon)).collect()
    }
}

impl RlPart for Gdpo {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Advantage for Gdpo {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let mut values: Vec<f64> = batch.groups.iter().flat_map(|g| self.of_group(&g.rollouts)).collect();
        if self.whiten && values.len() > 1 {
            values = super::standardize(&values, self.ddof, self.epsilon);
        }
        batch.spread(&values)
    }
}

impl Gdpo {
    fn of_group(&self, rollouts: &[Rollout]) -> Vec<f64> {
        let mut sums = vec![0.0; rollouts.len()];
        let names: BTreeSet<&str> =
            rollouts.iter().flat_map(|r| r.trajectory.rewards.keys().map(String::as_str)).collect();
        for name in names {
            let (indexes, rewards): (Vec<usize>, Vec<f64>) =
                rollouts.iter().enumerate().filter_map(|(i, r)| Some((i, *r.trajectory.rewards.get(name)?))).unzip();
            let weight = self.weights.get(name).copied().unwrap_or(1.0);
            for (i, a) in indexes.into_iter().zip(super::standardize(&rewards, self.ddof, self.epsilon)) {
                sums[i] += weight * a;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantages::group::GroupAdvantage;
    use crate::batch::Group as Rollouts;
    use trainyard_tables::Trajectory;

    fn rollout(rewards: &[(&str, f64)]) -> Rollout {
        Rollout {
            trajectory: Trajectory {
                rewards: rewards.iter().map(|(n, r)| ((*n).to_string(), *r)).collect(),
                reward: rewards.iter().map(|(_, r)| r).sum(),
                ..Trajectory::default()
            },
            mask: vec![false, true],
            ..Rollout::default()
        }
    }
    fn batch(groups: &[&[&[(&str, f64)]]]) -> Batch {
        let group = |g: &&[&[(&str, f64)]]| Rollouts {
            rollouts: g.iter().map(|r| rollout(r)).collect(),
            ..Rollouts::default()
        };
        Batch { step: 0, groups: groups.iter().map(group).collect() }
    }
    fn assign(part: &mut impl Advantage, batch: &Batch) -> Vec<f64> {
        let grid = part.assign(batch);
        assert!(grid.iter().all(|row| row[0] == 0.0), "masked tokens get 0");
        grid.iter().map(|row| row[1]).collect()
    }
    fn plain() -> Gdpo {
        Gdpo { whiten: false, ddof: 0, epsilon: 0.0, ..Gdpo::default() }
    }

    #[test]
    fn components_are_normalized_then_weighted() {
        let two = batch(&[&[&[("a", 1.0), ("b", 0.0)], &[("a", 0.0), ("b", 10.0)]]]);
        assert_eq!(assign(&mut plain(), &two), [0.0, 0.0]);
        let mut weighted = Gdpo { weights: BTreeMap::from([("b".to_string(), 0.5)]), ..plain() };
        assert_eq!(assign(&mut weighted, &two), [0.5, -0.5]);
        weighted.whiten = true;
        assert_eq!(assign(&mut weighted, &two), [1.0, -1.0]);
    }

    #[test]
    fn mixtures_with_equal_sums_stay_distinct() {
        let one = [("a", 1.0), ("b", 0.0)];
        let both = [("a", 1.0), ("b", 1.0)];
        let none = [("a", 0.0), ("b", 0.0)];
        let groups = batch(&[&[&none, &one], &[&none, &both]]);
        let grpo = assign(&mut GroupAdvantage { ddof: 0, epsilon: 0.0, ..GroupAdvantage::default() }, &groups);
        assert_eq!(grpo, [-1.0, 1.0, -1.0, 1.0], "one reward counts as much as two");
        assert_eq!(assign(&mut plain(), &groups), [-1.0, 1.0, -2.0, 2.0]);
    }

    #[test]
    fn component_scale_does_not_matter() {
        for unit in [0.01, 1.0, 1000.0] {
            let scaled = [[0.0, 3.0 * unit], [1.0, unit], [1.0, 2.0 * unit]];
            let rows: Vec<Vec<(&str, f64)>> = scaled.iter().map(|r| vec![("a", r[0]), ("b", r[1])]).collect();
            let group: Vec<&[(&str, f64)]> = rows.iter().map(Vec::as_slice).collect();
            let a = assign(&mut plain(), &batch(&[&group]));
            // a: −√2, √2/2, √2/2; b: √1.5, −√1.5, 0.
            let (first, second) = (2.0f64.sqrt(), 1.5f64.sqrt());
            for (found, expected) in a.iter().zip([second - first, first / 2.0 - second, first / 2.0]) {
                assert!((found - expected).abs() < 1e-9, "{a:?}");
            }
        }
    }

    #[test]
    fn missing_component_gives_zero_and_is_left_out_of_the_mean() {
        let three = batch(&[&[&[("a", 1.0), ("b", 5.0)], &[("a", 0.0), ("b", 3.0)], &[("a", 0.5)]]]);
        let a = assign(&mut plain(), &three);
        let outer = 0.5 / (0.5f64 / 3.0).sqrt();
        for (found, expected) in a.iter().zip([outer + 1.0, -outer - 1.0, 0.0]) {
            assert!((found - expected).abs() < 1e-12, "{a:?}");
        }
    }

    #[test]
    fn whitening_is_over_the_rollouts_of_the_batch() {
        let groups = batch(&[
            &[&[("a", 1.0)], &[("a", 0.0)], &[("a", 0.0)]],
            &[&[("a", 1.0), ("b", 2.0)], &[("a", 0.0), ("b", 1.0)]],
        ]);
        let a = assign(&mut Gdpo { ddof: 0, epsilon: 0.0, ..Gdpo::default() }, &groups);
        let squares: f64 = a.iter().map(|x| x * x).sum();
        assert!(a.iter().sum::<f64>().abs() < 1e-12 && (squares / 5.0 - 1.0).abs() < 1e-12, "{a:?}");
        let alone = batch(&[&[&[("a", 1.0)]]]);
        assert_eq!(assign(&mut Gdpo::default(), &alone), [0.0]);
    }

    #[test]
    fn weights_must_be_finite() {
        let weights = BTreeMap::from([("a".to_string(), f64::NAN)]);
        assert_eq!(Gdpo { weights, ..Gdpo::default() }.check()[0].pointer, "/weights/a");
        assert!(!Gdpo { ddof: 2, ..Gdpo::default() }.check().is_empty());
        assert!(!Gdpo { epsilon: -1.0, ..Gdpo::default() }.check().is_empty());
    }
}
