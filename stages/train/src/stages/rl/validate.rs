//! Measures the greedy pass rate on held-out problems: one episode each, at temperature 0.

use super::state::RlRun;
use crate::rollouts::{EpisodeJob, RolloutDriver};
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_lm::backend::Sampler;
use trainyard_tables::{Problem, SamplingParams};

/// Greedy pass rates.
pub struct GreedyRates {
    /// Share of the problems that pass, from 0 to 1, without infrastructure failures; 0 without problems.
    pub accuracy: f64,
    /// Level → (problems, passes).
    pub levels: BTreeMap<u32, (u64, u64)>,
}

impl GreedyRates {
    /// Returns names and values of the metrics: the overall accuracy, then one per level.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let level =
            |(l, (n, p)): (&u32, &(u64, u64))| (format!("validation_accuracy_level_{l}"), *p as f64 / *n as f64);
        std::iter::once(("validation_accuracy".to_string(), self.accuracy))
            .chain(self.levels.iter().map(level))
            .collect()
    }
}

/// Selects at most `limit` problems, in equal numbers per level as far as the levels have enough, and keeps their
/// order.
pub fn equal_shares(problems: Vec<Problem>, limit: usize) -> Vec<Problem> {
    let mut by_level: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, p) in problems.iter().enumerate() {
        by_level.entry(p.level).or_default().push(i);
    }
    let mut chosen: Vec<usize> = Vec::new();
    let mut round = 0;
    while chosen.len() < limit.min(problems.len()) {
        let remaining = limit - chosen.len();
        chosen.extend(by_level.values().filter_map(|list| list.get(round).copied()).take(remaining));
        round += 1;
    }
    chosen.sort_unstable();
    let mut keep = chosen.into_iter().peekable();
    problems.into_iter().enumerate().filter(|(i, _)| keep.next_if_eq(i).is_some()).map(|(_, p)| p).collect()
}

impl RlRun<'_> {
    /// Plays one greedy episode per validation problem and returns the pass rates. Infrastructure failures are left
    /// out.
    pub(super) fn greedy(&self, sampler: &mut dyn Sampler) -> Result<GreedyRates> {
        let jobs: Vec<EpisodeJob> = (0..self.validation.len()).map(|i| EpisodeJob::root(i, 0)).collect();
        let mut driver = RolloutDriver {
            sampler,
            model: &self.policy.folder,
            environment: &*self.environment,
            limits: self.limits(),
            sampling: SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 },
            chance: self.chance.child("validation", &[]),
            name: "rl/validation".into(),
            cancel: &self.cancel,
        };
        let mut levels: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for one in driver.run(&self.validation, &jobs)?.iter().filter(|f| !f.failed()) {
            let level = levels.entry(one.trajectory.level).or_default();
            level.0 += 1;
            level.1 += u64::from(one.correct);
        }
        let (n, passes) = levels.values().fold((0, 0), |(n, p), (a, b)| (n + a, p + b));
        Ok(GreedyRates { accuracy: passes as f64 / n.max(1) as f64, levels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_get_equal_shares() {
        let problem = |i: usize, level: u32| Problem { id: i.to_string(), level, ..Problem::default() };
        let problems: Vec<Problem> = (0..10).map(|i| problem(i, if i < 8 { 1 } else { 2 })).collect();
        let chosen = equal_shares(problems.clone(), 4);
        assert_eq!(chosen.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(), ["0", "1", "8", "9"]);
        assert_eq!(equal_shares(problems.clone(), 6).len(), 6);
        assert_eq!(equal_shares(problems, 99).len(), 10);
        assert!(equal_shares(Vec::new(), 5).is_empty());
    }
}
