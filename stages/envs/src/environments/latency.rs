//! Delays the results of a turn by a drawn time, to simulate slow tools.
//!
//! Built-in tools answer immediately; those of real agents (pages, shells, remote services) take tenths of a second.
//! The option `latency` shows how well rollouts hide such delays. The delay depends on the episode's seed and the turn,
//! and never changes the results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use trainyard_core::{Chance, OptionProblem};

/// Maximum delay of a tool call in milliseconds.
const MAX_MILLIS: u64 = 600_000;

/// Delay of the results of a turn with calls, drawn uniformly from a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// Shortest time in milliseconds, counted from the call.
    #[schemars(range(min = 0, max = 600_000))]
    pub least_millis: u64,
    /// Longest time in milliseconds. A tool that takes longer by itself is not delayed further.
    #[schemars(range(min = 0, max = 600_000))]
    pub most_millis: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { least_millis: 100, most_millis: 500 }
    }
}

impl Latency {
    /// Returns a problem for every value that is out of range or contradictory; `pointer` is the location of these
    /// options.
    pub fn check(&self, pointer: &str) -> Vec<OptionProblem> {
        let (min, max) = (("/least_millis", self.least_millis), ("/most_millis", self.most_millis));
        let outside =
            [min, max].into_iter().filter_map(|(at, millis)| OptionProblem::out_of_range(at, millis, ..=MAX_MILLIS));
        outside.chain(OptionProblem::reversed_bounds(min, max)).map(|problem| problem.with_prefix(pointer)).collect()
    }
    /// Returns the delay of one turn of the episode with this seed.
    pub fn of_turn(&self, seed: u64, turn: u32) -> Duration {
        let (min, max) = (Duration::from_millis(self.least_millis), Duration::from_millis(self.most_millis));
        max.saturating_sub(min).mul_f64(Chance::new(seed).at("latency", &[u64::from(turn)]).uniform()) + min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_cover_the_range_by_seed_and_turn() {
        let latency = Latency { least_millis: 5, most_millis: 10 };
        assert_eq!(latency.of_turn(1, 1), latency.of_turn(1, 1));
        assert_ne!(latency.of_turn(1, 1), latency.of_turn(2, 1));
        assert_ne!(latency.of_turn(1, 1), latency.of_turn(1, 2));
        let times: Vec<f64> = (0..2000).map(|seed| latency.of_turn(seed, 1).as_secs_f64() * 1000.0).collect();
        assert!(times.iter().all(|t| (5.0..=10.0).contains(t)));
        // The standard deviation is 5/√12 = 1.44, that of the mean of 2000 is 0.032.
        let mean = times.iter().sum::<f64>() / 2000.0;
        assert!((mean - 7.5).abs() < 0.17, "{mean}");
        assert!(times.iter().any(|t| *t < 5.1) && times.iter().any(|t| *t > 9.9));
        assert_eq!(Latency { least_millis: 7, most_millis: 7 }.of_turn(3, 2), Duration::from_millis(7));
    }

    #[test]
    fn ranges_are_checked() {
        let pointers = |least_millis, most_millis| {
            let problems = Latency { least_millis, most_millis }.check("/latency");
            problems.into_iter().map(|p| p.pointer).collect::<Vec<_>>()
        };
        assert_eq!(Latency::default().check("/latency"), []);
        assert_eq!(pointers(0, MAX_MILLIS), Vec::<String>::new());
        assert_eq!(pointers(6, 5), ["/latency/least_millis"]);
        assert_eq!(pointers(0, MAX_MILLIS + 1), ["/latency/most_millis"]);
        assert_eq!(
            pointers(MAX_MILLIS + 2, MAX_MILLIS + 1),
            ["/latency/least_millis", "/latency/most_millis", "/latency/least_millis"]
        );
    }
}
