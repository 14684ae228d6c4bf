//! Which sequences are sampled for a problem, and which are kept. One file per strategy; the list is in [`crate::registry`].

pub mod demonstration_prefix;
pub mod entropy_balanced;
pub mod entropy_branching;
pub mod independent;
pub mod resample_on_correct;
pub mod rubric_scaffold;
#[cfg(test)]
mod tests;

pub use demonstration_prefix::DemonstrationPrefix;
pub use entropy_balanced::EntropyBalanced;
pub use entropy_branching::EntropyBranching;
pub use independent::Independent;
pub use resample_on_correct::ResampleOnCorrect;
pub use rubric_scaffold::RubricScaffold;

use crate::part::{Draw, Live, Progress, Spawn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::{Chance, OptionProblem, above};

/// `count` sequences from the root for every problem.
fn from_root(draw: &Draw, count: u32) -> Vec<Spawn> {
    let spawn = |group: usize, sample: u32| Spawn { group, sample, ..Spawn::default() };
    (0..draw.problems.len()).flat_map(|g| (0..count).map(move |s| spawn(g, s))).collect()
}

/// What becomes of a node's propensity P to be forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForkRule {
    /// A fork where P > threshold, as the papers have it.
    #[default]
    Threshold,
    /// A fork with probability P, as the released code has it.
    Chance,
}

impl ForkRule {
    /// `chance` is asked at (group, sample, turn), so the draw of one node depends on no other.
    fn forks(self, propensity: f64, threshold: f64, live: &Live, chance: &Chance) -> bool {
        match self {
            Self::Threshold => propensity > threshold,
            Self::Chance => {
                let place = [live.group as u64, u64::from(live.sample), u64::from(live.turn)];
                chance.at("fork", &place).uniform() < propensity
            }
        }
    }
}

/// Mean entropy of the first `window` tokens of a turn, in nats; none of an empty turn.
fn opening(turn: &[f64], window: usize) -> Option<f64> {
    let first = &turn[..window.min(turn.len())];
    if first.is_empty() { None } else { Some(first.iter().sum::<f64>() / first.len() as f64) }
}

/// ΔH of every turn behind a tool result, in turn order: how far its opening lies above that of turn 0, in units of `normalizer`
/// nats. None where a turn has no token; an empty list if turn 0 has none.
fn jumps(live: &Live, window: usize, normalizer: f64) -> Vec<Option<f64>> {
    let Some(root) = live.entropies.first().and_then(|t| opening(t, window)) else { return Vec::new() };
    live.entropies.iter().skip(1).map(|t| opening(t, window).map(|h| (h - root) / normalizer)).collect()
}

/// Refuses what is no measure of entropy, or a fork without an original.
fn check_forking(window: usize, normalizer: f64, beam: u32) -> Vec<OptionProblem> {
    let normalizer = OptionProblem::outside("/normalizer", normalizer, above(0.0));
    let normalizer = normalizer.map(|p| p.help("use a number of nats above 0; 1 leaves them as they are"));
    let counts = [OptionProblem::outside("/beam", beam, 1..), OptionProblem::outside("/window", window, 1..)];
    counts.into_iter().flatten().chain(normalizer).collect()
}

/// Means of one step by metric name; a step may draw more than once.
///
/// Groups come in the order in which their tools answer, so values are kept and added up in order of size: the sums depend on no clock.
#[derive(Debug, Clone, PartialEq, Default)]
struct Tally {
    step: Option<u64>,
    /// Name → (values, count).
    means: BTreeMap<&'static str, (Vec<f64>, f64)>,
}

impl Tally {
    /// Forgets the values of another step.
    fn begin(&mut self, progress: Progress) {
        if self.step != Some(progress.step) {
            *self = Self { step: Some(progress.step), means: BTreeMap::new() };
        }
    }
    fn add(&mut self, name: &'static str, value: f64, count: usize) {
        let mean = self.means.entry(name).or_default();
        mean.0.push(value);
        mean.1 += count as f64;
    }
    /// By name; a mean of nothing is left out.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let counted = self.means.iter().filter(|(_, (_, count))| *count > 0.0);
        counted.map(|(name, (values, count))| (*name, ordered_sum(values) / count)).collect()
    }
}

/// The same whatever the order of the values.
fn ordered_sum(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.iter().sum()
}
