//! Defines the number of problems of each level in a split.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::OptionProblem;

/// Numbers of problems: either `levels` (exact), or `total` with optional `weights`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Level → number of problems.
    pub levels: BTreeMap<u32, u64>,
    /// Number of problems of all levels together.
    #[schemars(range(min = 1))]
    pub total: Option<u64>,
    /// Level → weight in `total`; equal weights for all levels if omitted.
    pub weights: BTreeMap<u32, f64>,
}

impl Split {
    /// Returns a split with exact numbers by level.
    pub fn by_level(levels: impl IntoIterator<Item = (u32, u64)>) -> Self {
        Self { levels: levels.into_iter().collect(), ..Self::default() }
    }

    /// Returns the number of problems by level, for levels 1 to `max_level`. `total` is apportioned by largest
    /// remainder, with ties to the lower level.
    pub fn counts(&self, max_level: u32) -> BTreeMap<u32, u64> {
        let Some(total) = self.total else {
            return self.levels.clone();
        };
        let weights: Vec<(u32, f64)> = if self.weights.is_empty() {
            (1..=max_level).map(|l| (l, 1.0)).collect()
        } else {
            self.weights.iter().map(|(l, w)| (*l, *w)).collect()
        };
        let sum: f64 = weights.iter().map(|(_, w)| w).sum();
        let shares: Vec<(u32, f64)> = weights.iter().map(|(l, w)| (*l, total as f64 * w / sum)).collect();
        let mut counts: BTreeMap<u32, u64> = shares.iter().map(|(l, s)| (*l, s.floor() as u64)).collect();
        let mut remaining = total.saturating_sub(counts.values().sum());
        let mut order = shares;
        order.sort_by(|a, b| b.1.fract().total_cmp(&a.1.fract()).then(a.0.cmp(&b.0)));
        for (level, _) in order.iter().cycle() {
            if remaining == 0 {
                break;
            }
            *counts.entry(*level).or_insert(0) += 1;
            remaining -= 1;
        }
        counts
    }

    /// Returns problems with the splits, including a missing split `demonstrated`.
    pub fn check_all(splits: &BTreeMap<String, Self>, max_level: u32, demonstrated: &str) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            splits.iter().flat_map(|(name, split)| split.check(&format!("/splits/{name}"), max_level)).collect();
        if !splits.contains_key(demonstrated) {
            problems.push(
                OptionProblem::new("/splits", format!("missing split `{demonstrated}`"))
                    .help("add the split, with the problems to demonstrate"),
            );
        }
        problems
    }

    /// Returns problems with the options, located under `pointer`.
    pub fn check(&self, pointer: &str, max_level: u32) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let mut add = |key: &str, message: String, help: &str| {
            problems.push(OptionProblem::new(format!("{pointer}{key}"), message).help(help))
        };
        match (self.levels.is_empty(), self.total) {
            (true, None) => add(
                "",
                "a split needs `levels` or `total`".into(),
                "write for example `{levels: {1: 100, 2: 50}}` or `{total: 300}`",
            ),
            (false, Some(_)) => add("/total", "`levels` and `total` exclude each other".into(), "keep one of them"),
            (true, Some(0)) => add("/total", "the split has no problems".into(), "leave the split out"),
            _ => {}
        }
        if self.total.is_none() && !self.weights.is_empty() {
            add("/weights", "`weights` divide a `total`, but there is none".into(), "give `total`, or use `levels`");
        }
        for level in self.levels.keys().chain(self.weights.keys()) {
            if *level == 0 || *level > max_level {
                add("", format!("level {level} does not exist"), &format!("levels go from 1 to {max_level}"));
            }
        }
        let invalid = self.weights.values().any(|w| !w.is_finite() || *w < 0.0);
        if !self.weights.is_empty() && (invalid || self.weights.values().sum::<f64>() <= 0.0) {
            add(
                "/weights",
                "weights must not be negative, and one must be positive".into(),
                "write for example `{1: 2, 2: 1}`",
            );
        }
        problems
    }
}

/// Returns the splits of the quickstart: few demonstrations of higher levels; equal shares per level in validation and
/// test.
pub fn default_splits() -> BTreeMap<String, Split> {
    let split = |name: &str, split: Split| (name.to_string(), split);
    let total = |n: u64| Split { total: Some(n), ..Split::default() };
    BTreeMap::from([
        split("demonstrations", Split::by_level([(1, 1_500), (2, 1_500), (3, 300), (4, 100), (5, 50)])),
        split("rl", total(2_000)),
        split("prm", total(400)),
        split("validation", total(200)),
        split("test", total(400)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_apportioned_exactly() {
        let split = Split { total: Some(10), weights: [(1, 1.0), (2, 1.0), (4, 1.0)].into(), ..Split::default() };
        assert_eq!(split.counts(5), [(1, 4), (2, 3), (4, 3)].into());
        assert_eq!(Split { total: Some(300), ..Split::default() }.counts(5).values().collect::<Vec<_>>(), [&60; 5]);
        for total in 1..50 {
            let split =
                Split { total: Some(total), weights: [(1, 0.3), (2, 0.0), (3, 7.1)].into(), ..Split::default() };
            assert_eq!(split.counts(3).values().sum::<u64>(), total);
        }
    }

    #[test]
    fn contradictions_are_found() {
        let invalid = [
            Split::default(),
            Split { total: Some(0), ..Split::default() },
            Split { total: Some(1), levels: [(1, 1)].into(), ..Split::default() },
            Split { levels: [(6, 1)].into(), ..Split::default() },
            Split { total: Some(1), weights: [(1, -1.0)].into(), ..Split::default() },
            Split { levels: [(1, 1)].into(), weights: [(1, 1.0)].into(), ..Split::default() },
        ];
        for split in invalid {
            assert!(!split.check("/splits/x", 5).is_empty(), "{split:?}");
        }
        for (name, split) in default_splits() {
            assert_eq!(split.check("", 5), [], "{name}");
        }
    }
}
