//! Counts attempts and passes by level and by problem, as input of curricula. The loop updates and saves the counts. A
//! level that was never tried has no rate.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Number of outcomes kept per level for the recent rate.
pub const RECENT: usize = 1024;

/// Attempts and passes by level and by problem.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PassRates {
    levels: BTreeMap<u32, LevelStats>,
    /// Index in the pool → (attempts, passes).
    problems: BTreeMap<usize, (u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct LevelStats {
    attempts: u64,
    passes: u64,
    /// Outcomes, newest last, at most [`RECENT`].
    recent: VecDeque<u8>,
}

impl PassRates {
    /// Counts one finished rollout.
    pub fn observe(&mut self, level: u32, problem: usize, passed: bool) {
        let entry = self.levels.entry(level).or_default();
        entry.attempts += 1;
        entry.passes += u64::from(passed);
        if entry.recent.len() == RECENT {
            entry.recent.pop_front();
        }
        entry.recent.push_back(u8::from(passed));
        let problem = self.problems.entry(problem).or_default();
        problem.0 += 1;
        problem.1 += u64::from(passed);
    }
    /// Returns the share of passes among the last `window` rollouts of a level, or `None` if there are fewer rollouts.
    pub fn recent(&self, level: u32, window: usize) -> Option<f64> {
        let recent = &self.levels.get(&level)?.recent;
        let window = window.clamp(1, RECENT);
        if recent.len() < window {
            return None;
        }
        Some(recent.iter().rev().take(window).map(|&p| f64::from(p)).sum::<f64>() / window as f64)
    }
    /// Returns [`Self::recent`], or the share over all rollouts if there are fewer than `window`; `None` without
    /// rollouts.
    pub fn estimate(&self, level: u32, window: usize) -> Option<f64> {
        let have = self.levels.get(&level)?.recent.len();
        if have == 0 { None } else { self.recent(level, window.min(have)) }
    }
    /// Returns (attempts, passes) of a level since the start.
    pub fn level(&self, level: u32) -> (u64, u64) {
        self.levels.get(&level).map_or((0, 0), |l| (l.attempts, l.passes))
    }
    /// Returns (attempts, passes) of one problem since the start.
    pub fn problem(&self, problem: usize) -> (u64, u64) {
        self.problems.get(&problem).copied().unwrap_or((0, 0))
    }
    /// Returns the levels that were tried, ascending.
    pub fn levels(&self) -> impl Iterator<Item = u32> + '_ {
        self.levels.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_rate_forgets_and_survives_saving() {
        let mut rates = PassRates::default();
        for i in 0..6 {
            rates.observe(2, 7, i >= 3);
        }
        assert_eq!(rates.recent(2, 3), Some(1.0));
        assert_eq!(rates.recent(2, 6), Some(0.5));
        assert_eq!(rates.recent(2, 7), None);
        assert_eq!(rates.estimate(2, 7), Some(0.5));
        assert_eq!(rates.recent(1, 1), None);
        assert_eq!(rates.problem(7), (6, 3));
        let saved = serde_json::to_string(&rates).unwrap();
        assert_eq!(serde_json::from_str::<PassRates>(&saved).unwrap(), rates);
    }
}
