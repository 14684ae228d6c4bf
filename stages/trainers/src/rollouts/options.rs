//! Defines the options of sampling episodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_tables::SamplingParams;
use trainyard_train::rollouts::{EpisodeLimits, ToolWait};

/// Sampling of episodes: keys of the same name in `rl` have the same meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutOptions {
    /// Episodes per problem. Divides `batch_rows`.
    #[schemars(range(min = 2))]
    pub group_size: u64,
    /// Sampling temperature, above 0; the loss uses the same.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub temperature: f64,
    /// Sample from the smallest set of most probable tokens that reaches this probability; 1 = all.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub top_p: f64,
    /// Sample from this many most probable tokens; 0 = all.
    pub top_k: u32,
    /// Limit of tokens sampled in one turn of the agent.
    #[schemars(range(min = 1))]
    pub max_turn_tokens: usize,
    /// Limit of tokens of an episode: prompt, turns and observations.
    #[schemars(range(min = 2))]
    pub max_episode_tokens: usize,
    /// Maximum sequences decoded together: limits memory.
    #[schemars(range(min = 1))]
    pub max_running: usize,
}

impl Default for RolloutOptions {
    fn default() -> Self {
        Self {
            group_size: 8,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_turn_tokens: 128,
            max_episode_tokens: 768,
            max_running: 256,
        }
    }
}

impl RolloutOptions {
    /// Returns the distribution from which tokens are drawn.
    pub fn sampling(&self) -> SamplingParams {
        SamplingParams { temperature: self.temperature, top_p: self.top_p, top_k: self.top_k }
    }
    /// Returns the limits of an episode. All episodes draw their turns together, so each waits for the tools of the
    /// others.
    pub fn limits(&self) -> EpisodeLimits {
        EpisodeLimits {
            turn_tokens: self.max_turn_tokens,
            episode_tokens: self.max_episode_tokens,
            running: self.max_running,
            kv_memory: u64::MAX,
            tool_wait: ToolWait::Batch,
        }
    }
    /// Returns all problems. `at` is the pointer to these options in the config.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let pointer = |key: &str| format!("{at}/{key}");
        let mut problems: Vec<OptionProblem> = [
            OptionProblem::out_of_range(pointer("group_size"), self.group_size, 2..),
            OptionProblem::out_of_range(pointer("max_turn_tokens"), self.max_turn_tokens, 1..),
            OptionProblem::out_of_range(pointer("max_episode_tokens"), self.max_episode_tokens, 2..),
            OptionProblem::out_of_range(pointer("max_running"), self.max_running, 1..),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            let message = format!("the temperature is {}, but must be above 0", self.temperature);
            problems.push(
                OptionProblem::new(pointer("temperature"), message)
                    .help("use 1 for the unchanged probabilities of the policy"),
            );
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            let message = format!("`top_p` is {}, but must be above 0 and at most 1", self.top_p);
            problems.push(OptionProblem::new(pointer("top_p"), message).help("use 1 for all tokens"));
        }
        problems.extend(OptionProblem::reversed_bounds(
            (&pointer("max_turn_tokens"), self.max_turn_tokens),
            (&pointer("max_episode_tokens"), self.max_episode_tokens),
        ));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn invalid_options_are_reported_with_pointers() {
        let places = |options: Value| -> Vec<String> {
            let options: RolloutOptions = serde_json::from_value(options).unwrap();
            options.problems("/rollout").into_iter().map(|problem| problem.pointer).collect()
        };
        assert!(places(json!({})).is_empty());
        assert_eq!(places(json!({"group_size": 1})), ["/rollout/group_size"]);
        assert_eq!(places(json!({"temperature": 0.0, "top_p": 1.5})), ["/rollout/temperature", "/rollout/top_p"]);
        assert_eq!(places(json!({"max_turn_tokens": 9, "max_episode_tokens": 8})).len(), 1);
        assert_eq!(places(json!({"max_running": 0})), ["/rollout/max_running"]);
    }
}
