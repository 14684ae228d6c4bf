//! Implements strategies, which select the sequences to sample for a problem and the ones to keep.

pub mod demonstration_prefix;
pub mod entropy_balanced;
pub mod entropy_branching;
mod forking;
pub mod independent;
pub mod resample_on_correct;
pub mod rubric_scaffold;
#[cfg(test)]
mod tests;

use crate::part::{Draw, Progress, Spawn};
use std::collections::BTreeMap;

/// Starts `count` sequences from the root for every problem.
fn from_root(draw: &Draw, count: u32) -> Vec<Spawn> {
    let spawn = |group: usize, sample: u32| Spawn { group, sample, ..Spawn::default() };
    (0..draw.problems.len()).flat_map(|g| (0..count).map(move |s| spawn(g, s))).collect()
}

/// Means over one step by metric name. A step may draw more than once.
///
/// The order of groups depends on the duration of tool calls, so values are kept and summed in sorted order. The sums
/// are then reproducible.
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
    /// Returns the means by name, without those that have no values.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let counted = self.means.iter().filter(|(_, (_, count))| *count > 0.0);
        counted.map(|(name, (values, count))| (*name, ordered_sum(values) / count)).collect()
    }
}

/// Returns a sum that does not depend on the order of the values.
fn ordered_sum(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.iter().sum()
}
