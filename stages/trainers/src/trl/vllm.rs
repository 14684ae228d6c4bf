//! Defines how `GRPOTrainer` draws by vLLM. Each option is the option of `GRPOConfig` of TRL 1.16 with the prefix
//! `vllm_`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;

/// Place of vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VllmMode {
    /// Inside TRL's process, on the GPU that trains.
    #[default]
    Colocate,
    /// A server that `vllm serve` runs, on other GPUs.
    Server,
}

/// Code of the model inside vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VllmModelImplementation {
    /// The code of vLLM.
    #[default]
    Vllm,
    /// The code of transformers.
    Transformers,
}

/// Use of the ratio between the probabilities of the trained model and those of vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum VllmRatio {
    /// One ratio for each episode; episodes outside the bounds are not learned from.
    #[default]
    SequenceMask,
    /// One ratio for each episode, limited to the bounds.
    SequenceTruncate,
    /// A ratio for each token; tokens outside the bounds are not learned from.
    TokenMask,
    /// A ratio for each token, limited to the bounds.
    TokenTruncate,
}

/// Drawing by vLLM, for `grpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VllmOptions {
    /// `colocate`: in TRL's process, on the GPU that trains; `server`: by a server of `vllm serve`.
    pub mode: VllmMode,
    /// Code of the model: `vllm` or `transformers`.
    pub model_impl: VllmModelImplementation,
    /// Free vLLM's memory during an optimizer step (`colocate`).
    pub enable_sleep_mode: bool,
    /// Share of the GPU's memory for vLLM (`colocate`).
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub gpu_memory_utilization: f64,
    /// Maximum tokens of an episode in vLLM (`colocate`); null = those of the model.
    pub max_model_length: Option<u64>,
    /// URL of the server (`server`).
    pub server_base_url: Option<String>,
    /// Seconds to wait for the server (`server`).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub server_timeout: f64,
    /// Port for sending weights to the server (`server`).
    pub group_port: u16,
    /// Weigh tokens by the ratio between the probabilities of the trained model and those of vLLM.
    pub importance_sampling_correction: bool,
    /// Use of the ratio: `sequence_mask`, `sequence_truncate`, `token_mask` or `token_truncate`.
    pub importance_sampling_mode: VllmRatio,
    /// Upper bound of the ratio; null = none.
    pub importance_sampling_clip_max: Option<f64>,
    /// Lower bound of the ratio; null = none.
    pub importance_sampling_clip_min: Option<f64>,
}

impl Default for VllmOptions {
    fn default() -> Self {
        Self {
            mode: VllmMode::Colocate,
            model_impl: VllmModelImplementation::Vllm,
            enable_sleep_mode: false,
            gpu_memory_utilization: 0.3,
            max_model_length: None,
            server_base_url: None,
            server_timeout: 240.0,
            group_port: 51216,
            importance_sampling_correction: true,
            importance_sampling_mode: VllmRatio::SequenceMask,
            importance_sampling_clip_max: Some(3.0),
            importance_sampling_clip_min: None,
        }
    }
}

impl VllmOptions {
    /// Returns all problems. `episode_tokens` is the limit of tokens of an episode.
    pub fn problems(&self, episode_tokens: u64) -> Vec<OptionProblem> {
        let above_zero = |key: &str, value: f64| {
            let problem = || OptionProblem::new(format!("/vllm/{key}"), format!("{value} is not above 0"));
            (!(value.is_finite() && value > 0.0)).then(problem)
        };
        let mut problems: Vec<OptionProblem> = [
            above_zero("gpu_memory_utilization", self.gpu_memory_utilization),
            above_zero("server_timeout", self.server_timeout),
            self.importance_sampling_clip_max.and_then(|most| above_zero("importance_sampling_clip_max", most)),
            self.importance_sampling_clip_min.and_then(|least| above_zero("importance_sampling_clip_min", least)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.gpu_memory_utilization > 1.0 {
            let message = format!("the share of memory is {}, but must be at most 1", self.gpu_memory_utilization);
            problems.push(OptionProblem::new("/vllm/gpu_memory_utilization", message));
        }
        if let Some(length) = self.max_model_length.filter(|length| *length < episode_tokens) {
            let message = format!("vLLM's {length} tokens are fewer than those of an episode ({episode_tokens})");
            let problem = OptionProblem::new("/vllm/max_model_length", message);
            problems.push(problem.help("use at least `rollout.max_episode_tokens`"));
        }
        problems.extend(self.server_problem());
        problems.extend(self.bounds_problem());
        problems
    }

    fn server_problem(&self) -> Option<OptionProblem> {
        match (self.mode, self.server_base_url.as_deref()) {
            (VllmMode::Server, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => None,
            (VllmMode::Server, _) => {
                let problem = OptionProblem::new("/vllm/server_base_url", "`mode: server` requires the server's URL");
                Some(problem.help("write for example `server_base_url: \"http://gpu-7:8000\"`"))
            }
            (VllmMode::Colocate, Some(_)) => {
                let problem = OptionProblem::new("/vllm/server_base_url", "`mode: colocate` uses no server");
                Some(problem.help("remove it, or use `mode: server`"))
            }
            (VllmMode::Colocate, None) => None,
        }
    }

    fn bounds_problem(&self) -> Option<OptionProblem> {
        let truncates = matches!(self.importance_sampling_mode, VllmRatio::SequenceTruncate | VllmRatio::TokenTruncate);
        let message = match (self.importance_sampling_clip_min, self.importance_sampling_clip_max) {
            (Some(least), Some(most)) if least >= most => {
                format!("the lower bound {least} is not below the upper bound {most}")
            }
            (None, None) if truncates && self.importance_sampling_correction => {
                "ratios are limited to bounds, but there are none".to_string()
            }
            _ => return None,
        };
        let problem = OptionProblem::new("/vllm/importance_sampling_clip_max", message);
        Some(problem.help("use for example `importance_sampling_clip_max: 3.0`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn places(options: Value) -> Vec<String> {
        let options: VllmOptions = serde_json::from_value(options).unwrap();
        options.problems(768).into_iter().map(|problem| problem.pointer).collect()
    }

    #[test]
    fn defaults_are_those_of_trl() {
        // Read from `GRPOConfig` of TRL 1.16.0.
        let written = json!({
            "mode": "colocate",
            "model_impl": "vllm",
            "enable_sleep_mode": false,
            "gpu_memory_utilization": 0.3,
            "max_model_length": null,
            "server_base_url": null,
            "server_timeout": 240.0,
            "group_port": 51216,
            "importance_sampling_correction": true,
            "importance_sampling_mode": "sequence_mask",
            "importance_sampling_clip_max": 3.0,
            "importance_sampling_clip_min": null,
        });
        assert_eq!(serde_json::to_value(VllmOptions::default()).unwrap(), written);
    }

    #[test]
    fn invalid_options_are_reported_with_pointers() {
        assert!(places(json!({})).is_empty());
        assert!(places(json!({"mode": "server", "server_base_url": "http://gpu-7:8000"})).is_empty());
        assert!(places(json!({"max_model_length": 768, "importance_sampling_mode": "token_truncate"})).is_empty());
        assert_eq!(places(json!({"mode": "server"})), ["/vllm/server_base_url"]);
        assert_eq!(places(json!({"mode": "server", "server_base_url": "gpu-7:8000"})), ["/vllm/server_base_url"]);
        assert_eq!(places(json!({"server_base_url": "http://gpu-7:8000"})), ["/vllm/server_base_url"]);
        assert_eq!(places(json!({"max_model_length": 767})), ["/vllm/max_model_length"]);
        assert_eq!(places(json!({"gpu_memory_utilization": 1.5})), ["/vllm/gpu_memory_utilization"]);
        assert_eq!(
            places(json!({"gpu_memory_utilization": 0.0, "server_timeout": -1.0})),
            ["/vllm/gpu_memory_utilization", "/vllm/server_timeout"]
        );
        let clip = "/vllm/importance_sampling_clip_max";
        assert_eq!(places(json!({"importance_sampling_clip_min": 3.0})), [clip]);
        let unbounded = json!({"importance_sampling_mode": "token_truncate", "importance_sampling_clip_max": null});
        assert_eq!(places(unbounded), [clip]);
        assert!(places(json!({"importance_sampling_clip_max": null})).is_empty(), "masking needs no bounds");
    }

    /// Two members draw from one prompt, one of them a second turn after an observation; a third draws nothing.
    const TWO_TURNS: &str = r#"
import types
from trl_vllm import VllmTurns

class Source:
    max_completion_length = 0
    def generate(self, prompts, images, num_generations):
        self.limit, replies = self.max_completion_length, self.replies.pop(0)
        return prompts, replies, [[[-float(token)] for token in reply] for reply in replies], None

source = Source()
trainer = types.SimpleNamespace(vllm_generation=source)
turns = VllmTurns({"mode": "colocate"}, [9])
assert turns.arguments() == {
    "use_vllm": True, "vllm_mode": "colocate", "generation_kwargs": {"stop_token_ids": [9]}}
cut = lambda tokens: tokens[: tokens.index(9) + 1] if 9 in tokens else tokens
source.replies = [[[3, 9, 7], [4, 5, 6]], [[8, 9]]]
first = [{"tokens": [1, 2], "most": 2}, {"tokens": [1, 2], "most": 3}]
assert turns.say(first, trainer, cut) == [[3, 9], [4, 5, 6]]
assert source.limit == 3
assert turns.say([{"tokens": [1, 2, 3, 9, 5], "most": 4}], trainer, cut) == [[8, 9]]
episode = {"prompt": [1, 2], "completion": [3, 9, 5, 8, 9], "mask": [1, 1, 0, 1, 1]}
assert turns.logprobs(episode) == [-3.0, -9.0, 0.0, -8.0, -9.0]
other = {"prompt": [1, 2], "completion": [4, 5, 6], "mask": [1, 1, 1]}
assert turns.logprobs(other) == [-4.0, -5.0, -6.0]
assert turns.logprobs({"prompt": [1, 2, 3], "completion": [9], "mask": [0]}) == [0.0]
try:
    turns.logprobs(other | {"completion": [4, 5, 7]})
except SystemExit as ended:
    assert "token 2 of an episode" in str(ended)
else:
    raise AssertionError("a token that vLLM did not draw")
turns.forget()
assert not turns.drawn
"#;

    #[test]
    fn log_probabilities_follow_the_turns_of_their_episode() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("trl_vllm.py"), include_str!("trl_vllm.py")).unwrap();
        let program = ["-c", TWO_TURNS];
        let ran = std::process::Command::new("python3").args(program).current_dir(folder.path()).output();
        let Ok(ran) = ran else {
            eprintln!("skipped: there is no python3");
            return;
        };
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}
