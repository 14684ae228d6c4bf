//! Defines the options of `engine/trl`.

use super::vllm::VllmOptions;
use crate::rollouts::RolloutOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trainyard_core::OptionProblem;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::template::TemplateOptions;

/// Trainer of TRL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum TrlMethod {
    /// `SFTTrainer`.
    #[default]
    Sft,
    /// `DPOTrainer`.
    Dpo,
    /// `GRPOTrainer`, on episodes that the stage runs.
    Grpo,
}

impl TrlMethod {
    /// Returns the name in a workflow.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Dpo => "dpo",
            Self::Grpo => "grpo",
        }
    }
}

/// Options of `engine/trl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrlConfig {
    /// The trainer: `sft` (`SFTTrainer`), `dpo` (`DPOTrainer`) or `grpo` (`GRPOTrainer`).
    pub method: TrlMethod,
    /// Python interpreter with TRL: a name on the PATH, or an absolute path of the machine where the stage runs.
    pub python: String,
    /// Required version of TRL: `1`, `1.16` or `1.16.0`.
    pub version: String,
    /// Optimizer steps.
    #[schemars(range(min = 1))]
    pub steps: u64,
    /// Rows (for `dpo`: pairs, for `grpo`: episodes) per optimizer step.
    #[schemars(range(min = 1))]
    pub batch_rows: u64,
    /// Rows computed together; a step accumulates their gradients. Divides `batch_rows`.
    #[schemars(range(min = 1))]
    pub micro_batch_rows: u64,
    /// Highest learning rate; null = TRL's default for the method.
    pub learning_rate: Option<f64>,
    /// Steps between resume points; 0 = no resume points.
    pub save_every: u64,
    /// Seed of all random draws.
    pub seed: u64,
    /// Other options of `SFTConfig`, `DPOConfig` or `GRPOConfig`, under their own names, such as `{weight_decay: 0.01,
    /// packing: true}`.
    pub config: Map<String, Value>,
    /// Names of environment variables that TRL gets in addition to `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR` and `TZ`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Format of the trained weights.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
    /// For `grpo`: the environment of the problems; null = `word-problems`.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// For `grpo`: use of the model's chat template.
    #[serde(skip_serializing_if = "TemplateOptions::is_default")]
    pub template: TemplateOptions,
    /// For `grpo`: components of the reward; their weighted sum is maximized. Null = `[{kind: answer}]`.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(extend("x-family" = "rewards"))]
    pub rewards: Value,
    /// For `grpo`: sampling of episodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutOptions>,
    /// For `grpo`: drawing by vLLM; null = by `generate` of transformers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vllm: Option<VllmOptions>,
}

impl Default for TrlConfig {
    fn default() -> Self {
        Self {
            method: TrlMethod::Sft,
            python: "python3".to_string(),
            version: "1".to_string(),
            steps: 100,
            batch_rows: 8,
            micro_batch_rows: 8,
            learning_rate: None,
            save_every: 50,
            seed: 0,
            config: Map::new(),
            env: Vec::new(),
            save: SaveOptions::default(),
            environment: Value::Null,
            template: TemplateOptions::default(),
            rewards: Value::Null,
            rollout: None,
            vllm: None,
        }
    }
}

/// Keys of TRL's config that options of the stage set, with the option.
const RESERVED_KEYS: [(&str, &str); 8] = [
    ("gradient_accumulation_steps", "micro_batch_rows"),
    ("learning_rate", "learning_rate"),
    ("max_steps", "steps"),
    ("num_train_epochs", "steps"),
    ("output_dir", "save"),
    ("per_device_train_batch_size", "micro_batch_rows"),
    ("save_steps", "save_every"),
    ("seed", "seed"),
];

/// Prefix of the keys of TRL's config that the option `vllm` sets.
const VLLM_PREFIX: &str = "vllm_";

/// Further keys that options of the stage set with `grpo`.
const RESERVED_ROLLOUT_KEYS: [(&str, &str); 12] = [
    ("generation_kwargs", "rollout"),
    ("max_completion_length", "rollout.max_episode_tokens"),
    ("min_p", "rollout"),
    ("num_generations", "rollout.group_size"),
    ("repetition_penalty", "rollout"),
    ("reward_weights", "rewards"),
    ("temperature", "rollout.temperature"),
    ("tools", "environment.tools"),
    ("top_k", "rollout.top_k"),
    ("top_p", "rollout.top_p"),
    ("use_transformers_continuous_batching", "rollout"),
    ("use_vllm", "vllm"),
];

impl TrlConfig {
    /// Returns problems of the options that only `grpo` reads: invalid values, or their use with another method.
    fn rollout_problems(&self) -> Vec<OptionProblem> {
        if self.method == TrlMethod::Grpo {
            let mut problems = self.template.problems("/template");
            let episode_tokens = self.rollout.as_ref().map_or(0, |rollout| rollout.max_episode_tokens as u64);
            problems.extend(self.vllm.iter().flat_map(|vllm| vllm.problems(episode_tokens)));
            let Some(rollout) = &self.rollout else { return problems };
            problems.extend(rollout.problems("/rollout"));
            if rollout.group_size > 0 && !self.batch_rows.is_multiple_of(rollout.group_size) {
                let message = format!(
                    "groups of {} episodes do not divide `batch_rows` ({})",
                    rollout.group_size, self.batch_rows
                );
                let problem = OptionProblem::new("/rollout/group_size", message);
                problems.push(problem.help("use a divisor of `batch_rows`"));
            }
            return problems;
        }
        let given = [
            ("environment", !self.environment.is_null()),
            ("template", !self.template.is_default()),
            ("rewards", !self.rewards.is_null()),
            ("rollout", self.rollout.is_some()),
            ("vllm", self.vllm.is_some()),
        ];
        let unread = |(key, _): (&str, bool)| {
            let message = format!("`{}` runs no episodes and does not read `{key}`", self.method.name());
            OptionProblem::new(format!("/{key}"), message).help("remove it, or use `method: grpo`")
        };
        given.into_iter().filter(|(_, given)| *given).map(unread).collect()
    }
    /// Returns a problem for each key of `config` that another option sets.
    fn reserved_problems(&self) -> Vec<OptionProblem> {
        let is_grpo = self.method == TrlMethod::Grpo;
        let rollout_keys = if is_grpo { &RESERVED_ROLLOUT_KEYS[..] } else { &[] };
        let named = RESERVED_KEYS.iter().chain(rollout_keys).copied();
        let named = named.filter(|(key, _)| self.config.contains_key(*key));
        let vllm_keys = self.config.keys().filter(|key| is_grpo && key.starts_with(VLLM_PREFIX));
        let problem = |(key, option): (&str, &str)| {
            let problem = OptionProblem::new(format!("/config/{key}"), format!("`{key}` is set by the stage"));
            problem.help(format!("use the option `{option}`"))
        };
        named.chain(vllm_keys.map(|key| (key.as_str(), "vllm"))).map(problem).collect()
    }
    /// Returns all problems that the options have without their parts and inputs.
    pub fn all_problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.save.problems("/save");
        let counts =
            [("/steps", self.steps), ("/batch_rows", self.batch_rows), ("/micro_batch_rows", self.micro_batch_rows)];
        problems.extend(counts.into_iter().filter_map(|(place, count)| OptionProblem::out_of_range(place, count, 1..)));
        if self.micro_batch_rows > 0 && !self.batch_rows.is_multiple_of(self.micro_batch_rows) {
            let message = format!("{} rows do not divide `batch_rows` ({})", self.micro_batch_rows, self.batch_rows);
            problems.push(OptionProblem::new("/micro_batch_rows", message).help("use a divisor of `batch_rows`"));
        }
        if self.learning_rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            problems.push(OptionProblem::new("/learning_rate", "the learning rate must be above 0"));
        }
        if self.python.is_empty() {
            problems
                .push(OptionProblem::new("/python", "the interpreter is empty").help("write for example `python3`"));
        }
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !self.version.split('.').all(digits) {
            let problem = OptionProblem::new("/version", format!("`{}` is not a version", self.version));
            problems.push(problem.help("write for example `1` or `1.16`, in quotes"));
        }
        problems.extend(self.reserved_problems());
        problems.extend(self.rollout_problems());
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn invalid_options_are_reported_with_pointers() {
        let places = |options: Value| -> Vec<String> {
            let config: TrlConfig = serde_json::from_value(options).unwrap();
            config.all_problems().into_iter().map(|problem| problem.pointer).collect()
        };
        assert!(places(json!({})).is_empty());
        assert!(places(json!({"version": "1.16.0", "batch_rows": 16, "config": {"packing": true}})).is_empty());
        assert_eq!(places(json!({"steps": 0})), ["/steps"]);
        assert_eq!(places(json!({"batch_rows": 6, "micro_batch_rows": 4})), ["/micro_batch_rows"]);
        assert_eq!(places(json!({"version": ">=1", "learning_rate": 0.0})), ["/learning_rate", "/version"]);
        assert_eq!(places(json!({"config": {"max_steps": 3, "seed": 1}})), ["/config/max_steps", "/config/seed"]);
    }

    #[test]
    fn rollout_options_require_grpo() {
        let places = |options: Value| -> Vec<String> {
            let config: TrlConfig = serde_json::from_value(options).unwrap();
            config.all_problems().into_iter().map(|problem| problem.pointer).collect()
        };
        let sft = json!({"environment": {"kind": "x"}, "rewards": [], "rollout": {}});
        assert_eq!(places(sft), ["/environment", "/rewards", "/rollout"]);
        let grpo =
            |rollout: Value, config: Value| places(json!({"method": "grpo", "rollout": rollout, "config": config}));
        assert!(grpo(json!({}), json!({"beta": 0.1, "loss_type": "grpo"})).is_empty());
        assert_eq!(grpo(json!({"group_size": 3}), json!({})), ["/rollout/group_size"]);
        let reserved = json!({"num_generations": 2, "top_p": 0.5, "use_vllm": true, "vllm_mode": "server"});
        let places_of_keys = ["num_generations", "top_p", "use_vllm", "vllm_mode"].map(|key| format!("/config/{key}"));
        assert_eq!(grpo(json!({}), reserved), places_of_keys);
        assert_eq!(places(json!({"vllm": {}})), ["/vllm"], "`sft` draws nothing");
        let vllm = |options: Value| places(json!({"method": "grpo", "rollout": {}, "vllm": options}));
        assert!(vllm(json!({})).is_empty());
        assert_eq!(vllm(json!({"max_model_length": 700})), ["/vllm/max_model_length"]);
        assert!(places(json!({"config": {"num_generations": 2}})).is_empty(), "TRL itself refuses it for `sft`");
    }

    #[test]
    fn newer_options_do_not_change_digest() {
        let config = serde_json::to_value(TrlConfig::default()).unwrap();
        let keys: Vec<&str> = config.as_object().unwrap().keys().map(String::as_str).collect();
        let original = ["batch_rows", "config", "learning_rate", "method", "micro_batch_rows", "python", "save_every"];
        assert_eq!(keys, [&original[..], &["seed", "steps", "version"]].concat());
    }
}
