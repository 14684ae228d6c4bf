//! Defines option structs that several stages share, so that sampling has the same options in each of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_core::units::parse_size;
use trainyard_core::{OptionProblem, WiredInputs};
pub use trainyard_envs::environments::word_problems::default_options as default_environment;
use trainyard_lm::shape;
use trainyard_tables::SamplingParams;

/// Returns the default rewards: only the final answer.
pub fn default_rewards() -> Value {
    json!([{ "kind": "answer" }])
}

/// Sampling options and limits of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingOptions {
    /// Sampling temperature; 0 = greedy.
    #[schemars(range(min = 0))]
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
    /// Sequences decoded together: limits memory, does not change results.
    #[schemars(range(min = 1))]
    pub max_running: usize,
    /// Memory for the keys and values of sequences decoded together, such as `8GiB`: fewer run at once if more would
    /// not fit at full length. Does not change results; null = 4GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_memory: Option<String>,
}

/// Default of `kv_memory`, in bytes.
const KV_MEMORY: u64 = 4 << 30;

/// Returns `kv_memory` in bytes, or the default if the option is absent or not a valid size.
pub fn kv_memory(option: Option<&str>) -> u64 {
    option.and_then(|text| parse_size(text).ok()).unwrap_or(KV_MEMORY)
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_turn_tokens: 128,
            max_episode_tokens: 768,
            max_running: 256,
            kv_memory: None,
        }
    }
}

impl SamplingOptions {
    /// Returns a warning if an episode may be longer than the context of a model at `port`.
    pub fn beyond_context(&self, inputs: &WiredInputs, port: &str) -> Option<OptionProblem> {
        shape::beyond_context(inputs, port, "/sampling/max_episode_tokens", self.max_episode_tokens)
    }
    /// Returns the sampling distribution of these options.
    pub fn distribution(&self) -> SamplingParams {
        SamplingParams { temperature: self.temperature, top_p: self.top_p, top_k: self.top_k }
    }
    /// Returns all problems of the options; `at` is their pointer in the config.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let mut bad = |key: &str, message: String| problems.push(OptionProblem::new(format!("{at}/{key}"), message));
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            bad("temperature", format!("the temperature is {}, but must be at least 0", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            bad("top_p", format!("`top_p` is {}, but must be above 0 and at most 1", self.top_p));
        }
        if let Some(Err(message)) = self.kv_memory.as_deref().map(parse_size) {
            bad("kv_memory", message);
        }
        for (key, value) in [("max_turn_tokens", self.max_turn_tokens), ("max_running", self.max_running)] {
            if value == 0 {
                bad(key, format!("`{key}` is 0, but must be at least 1"));
            }
        }
        if self.max_episode_tokens < 2 {
            bad(
                "max_episode_tokens",
                "an episode of fewer than 2 tokens has no room for a prompt and an answer".into(),
            );
        }
        problems.extend(OptionProblem::reversed_bounds(
            (&format!("{at}/max_turn_tokens"), self.max_turn_tokens),
            (&format!("{at}/max_episode_tokens"), self.max_episode_tokens),
        ));
        problems
    }
}
