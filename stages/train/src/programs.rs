//! Counts properties of rollouts of programs that keep their conversation (the environment `harness`).

use serde::{Deserialize, Serialize};
use trainyard_core::MetricInfo;
use trainyard_learn::{ProgramCalls, Rollout};

/// Name, unit and description of each count, in the order of `sums`.
const COUNTS: [(&str, &str, &str); 6] = [
    ("segments", "segments per rollout", "Conversations that the program of a harness begins."),
    (
        "healed_turns",
        "turns per rollout",
        "Turns continued with their recorded tokens although the program sent a changed text back.",
    ),
    ("forked_segments", "segments per rollout", "Segments that repeat a turn of an earlier one."),
    (
        "dropped_calls",
        "calls per rollout",
        "Calls without a response, and responses that the program did not wait for.",
    ),
    ("refused_calls", "calls per rollout", "Calls that were refused with an error."),
    (
        "ignored_sampling",
        "calls per rollout",
        "Calls that set sampling options different from the policy's; those options were ignored.",
    ),
];

/// Sums over the rollouts of programs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgramTotals {
    rollouts: u64,
    sums: [u64; COUNTS.len()],
}

impl ProgramTotals {
    /// Adds one rollout, unless it has no program.
    pub fn count(&mut self, calls: &ProgramCalls) {
        let ProgramCalls { segments, healed, forked, dropped, refused, ignored } = *calls;
        self.rollouts += u64::from(segments > 0);
        let counts = [segments, healed, forked, dropped, refused, ignored];
        self.sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }
    /// Returns the sums over these rollouts.
    pub fn of(rollouts: &[Rollout]) -> Self {
        let mut sums = Self::default();
        rollouts.iter().for_each(|one| sums.count(&one.calls));
        sums
    }
    pub fn add(&mut self, others: &Self) {
        self.rollouts += others.rollouts;
        self.sums.iter_mut().zip(others.sums).for_each(|(sum, other)| *sum += other);
    }
    /// Returns the means over rollouts by name; empty without rollouts of programs.
    pub fn means(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let (rollouts, sums) = (self.rollouts, self.sums);
        let named = COUNTS.iter().zip(sums).filter(move |_| rollouts > 0);
        named.map(move |((name, ..), sum)| (*name, sum as f64 / rollouts as f64))
    }
}

/// Declares the metrics of [`ProgramTotals::means`].
pub fn declared() -> impl Iterator<Item = MetricInfo> {
    COUNTS.into_iter().map(|(name, unit, doc)| MetricInfo::new(name, unit, doc).optional())
}
