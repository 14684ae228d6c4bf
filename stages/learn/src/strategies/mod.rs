//! Strategies: which sequences are sampled for a problem, and which are kept.

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
use crate::statistics::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::{Chance, OptionProblem, above};

/// Starts `count` sequences from the root for every problem.
fn from_root(draw: &Draw, count: u32) -> Vec<Spawn> {
    let spawn = |group: usize, sample: u32| Spawn { group, sample, ..Spawn::default() };
    (0..draw.problems.len()).flat_map(|g| (0..count).map(move |s| spawn(g, s))).collect()
}

/// How a node's propensity P decides about a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForkRule {
    /// Fork if P > threshold, as in the papers.
    #[default]
    Threshold,
    /// Fork with probability P, as in the released code.
    Chance,
}

impl ForkRule {
    /// Draws by (group, sample, turn), so that nodes do not influence each other.
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

/// Mean entropy of the first `window` tokens of a turn, in nats; `None` for an empty turn.
fn opening(turn: &[f64], window: usize) -> Option<f64> {
    let first = &turn[..window.min(turn.len())];
    mean(first)
}

/// ΔH of every turn after a tool result, in turn order: how far its opening lies above that of turn 0, in units of
/// `normalizer` nats. `None` for a turn without tokens; empty if turn 0 has none.
fn jumps(live: &Live, window: usize, normalizer: f64) -> Vec<Option<f64>> {
    let Some(root) = live.entropies.first().and_then(|t| opening(t, window)) else { return Vec::new() };
    live.entropies.iter().skip(1).map(|t| opening(t, window).map(|h| (h - root) / normalizer)).collect()
}

/// Problems with the options that all forking strategies share.
fn check_forking(window: usize, normalizer: f64, beam: u32) -> Vec<OptionProblem> {
    let normalizer = OptionProblem::outside("/normalizer", normalizer, above(0.0));
    let normalizer = normalizer.map(|p| p.help("use a number of nats above 0; 1 means no scaling"));
    let counts = [OptionProblem::outside("/beam", beam, 1..), OptionProblem::outside("/window", window, 1..)];
    counts.into_iter().flatten().chain(normalizer).collect()
}

/// Means over one step by metric name. A step may draw more than once.
///
/// Groups come in the order in which their tools answer, so values are kept and summed in sorted order: the sums must
/// not depend on the clock.
#[derive(Debug, Clone, PartialEq, Default)]
struct Tally {
    step: Option<u64>,
    /// Name → (values, count).
    means: BTreeMap<&'static str, (Vec<f64>, f64)>,
}

impl Tally {
    /// Drops the values of another step.
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
    /// The means by name; those without values are left out.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let counted = self.means.iter().filter(|(_, (_, count))| *count > 0.0);
        counted.map(|(name, (values, count))| (*name, ordered_sum(values) / count)).collect()
    }
}

/// A sum that does not depend on the order of the values.
fn ordered_sum(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.iter().sum()
}
