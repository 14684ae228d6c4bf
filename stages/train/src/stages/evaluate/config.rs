//! Options of `evaluate`.

use crate::config::SamplingOptions;
use crate::rollouts::StepKind;
use crate::world;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_core::OptionProblem;

/// Options of `evaluate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// One per model, in their order: lower-case letters, digits and `_`. `model_1`, … if empty.
    pub names: Vec<String>,
    /// The world that poses the problems.
    #[schemars(schema_with = "trainyard_envs::environments::registry::schema")]
    pub environment: Value,
    /// Samples per problem beside the greedy one; 0 = greedy only.
    pub samples: u32,
    /// Models (by name) that are sampled; empty = all. The others are evaluated greedily only.
    pub sampled: Vec<String>,
    pub sampling: SamplingOptions,
    /// Which k of pass@k; at most `samples`. avg, maj and best-of use all samples.
    pub pass_at: Vec<u32>,
    /// At most this many problems, in equal numbers per level; null = all.
    pub problems_limit: Option<usize>,
    /// Where the steps end that a process reward model scores, if its artifact does not say.
    pub steps: StepKind,
    /// Rollouts per model written to the output `trajectories`.
    pub keep_rollouts: usize,
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            environment: world::default_environment(),
            samples: 8,
            sampled: Vec::new(),
            sampling: SamplingOptions::default(),
            pass_at: vec![1, 2, 4, 8],
            problems_limit: None,
            steps: StepKind::Lines,
            keep_rollouts: 100,
            seed: 0,
        }
    }
}

impl Config {
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.sampling.problems("/sampling");
        let well_formed = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        for (i, name) in self.names.iter().enumerate() {
            if !well_formed(name) {
                problems.push(
                    OptionProblem::new(format!("/names/{i}"), format!("`{name}` cannot be part of a metric name"))
                        .help("use lower-case letters, digits and `_`"),
                );
            }
        }
        if self.names.iter().collect::<BTreeSet<_>>().len() < self.names.len() {
            problems.push(OptionProblem::new("/names", "two models have one name"));
        }
        for (i, name) in self.sampled.iter().enumerate().filter(|(_, n)| !self.names.is_empty() && !self.names.contains(n)) {
            problems.push(
                OptionProblem::new(format!("/sampled/{i}"), format!("no model is called `{name}`"))
                    .help(format!("the names are: {}", self.names.join(", "))),
            );
        }
        if self.samples > 0 && self.sampling.temperature == 0.0 {
            problems.push(
                OptionProblem::new("/sampling/temperature", "greedy samples of one problem are all equal")
                    .help("use a temperature above 0, or `samples: 0`"),
            );
        }
        if self.problems_limit == Some(0) {
            problems.push(OptionProblem::new("/problems_limit", "must be at least 1, or null"));
        }
        problems
    }
    /// The k of pass@k that the samples allow, ascending.
    pub fn ks(&self) -> Vec<u32> {
        self.pass_at.iter().copied().filter(|k| (1..=self.samples).contains(k)).collect::<BTreeSet<_>>().into_iter().collect()
    }
    /// The names of `count` models.
    pub fn model_names(&self, count: usize) -> Vec<String> {
        if self.names.is_empty() { (1..=count).map(|i| format!("model_{i}")).collect() } else { self.names.clone() }
    }
    pub fn is_sampled(&self, name: &str) -> bool {
        self.samples > 0 && (self.sampled.is_empty() || self.sampled.iter().any(|n| n == name))
    }
}
