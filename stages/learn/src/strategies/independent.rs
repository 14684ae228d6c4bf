//! Implements `independent`, GRPO's plain strategy: every rollout starts from the root, and all rollouts are kept.

use crate::part::{Draw, ProblemPool, Progress, RlPart, Spawn, Strategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Chance;

/// `independent` has no options.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndependentStrategy {}

impl PartOptions for IndependentStrategy {
    const KIND: &'static str = "independent";
    const SUMMARY: &'static str = "group_size rollouts per problem, each from the root";
    const DOC: &'static str = "Starts `group_size` sequences per problem, never forks, and keeps all.";
}

impl RlPart for IndependentStrategy {}

impl Strategy for IndependentStrategy {
    fn start(
        &mut self,
        draw: &Draw,
        _pool: &ProblemPool,
        size: u32,
        _progress: Progress,
        _chance: &Chance,
    ) -> Vec<Spawn> {
        let spawn = |group: usize, sample: u32| Spawn { group, sample, ..Spawn::default() };
        (0..draw.problems.len()).flat_map(|g| (0..size).map(move |s| spawn(g, s))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_gets_its_group() {
        let draw = Draw { problems: vec![9, 4], ..Draw::default() };
        let spawns =
            IndependentStrategy {}.start(&draw, &ProblemPool::default(), 3, Progress::default(), &Chance::new(0));
        assert_eq!(
            spawns.iter().map(|s| (s.group, s.sample)).collect::<Vec<_>>(),
            [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
        );
    }
}
