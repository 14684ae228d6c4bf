//! Options of `engine/trl`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trainyard_core::OptionProblem;
use trainyard_lm::checkpoint::SaveOptions;

/// Which of TRL's trainers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Method {
    /// `SFTTrainer`.
    #[default]
    Sft,
    /// `DPOTrainer`.
    Dpo,
}

impl Method {
    /// Its name in a workflow.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Dpo => "dpo",
        }
    }
}

/// Options of `engine/trl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The trainer: `sft` (`SFTTrainer`) or `dpo` (`DPOTrainer`).
    pub method: Method,
    /// The Python that has TRL: a name on the PATH, or an absolute path of the machine where the stage runs.
    pub python: String,
    /// Version of TRL that must be found: `1`, `1.16` or `1.16.0`.
    pub version: String,
    /// Optimizer steps.
    #[schemars(range(min = 1))]
    pub steps: u64,
    /// Rows (of `dpo`: pairs) per optimizer step.
    #[schemars(range(min = 1))]
    pub batch_rows: u64,
    /// Rows computed together; a step adds them up. Divides `batch_rows`.
    #[schemars(range(min = 1))]
    pub micro_batch_rows: u64,
    /// Highest learning rate; null = TRL's default for the method.
    pub learning_rate: Option<f64>,
    /// Steps between resume points; 0 = none.
    pub save_every: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Anything else of `SFTConfig` or `DPOConfig`, under its own name, such as `{weight_decay: 0.01, packing: true}`.
    pub config: Map<String, Value>,
    /// Names of environment variables that TRL gets beside `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR` and `TZ`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How the trained weights are written.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            method: Method::Sft,
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
        }
    }
}

/// Keys of TRL's config that options of the stage decide.
const OURS: [(&str, &str); 8] = [
    ("gradient_accumulation_steps", "micro_batch_rows"),
    ("learning_rate", "learning_rate"),
    ("max_steps", "steps"),
    ("num_train_epochs", "steps"),
    ("output_dir", "save"),
    ("per_device_train_batch_size", "micro_batch_rows"),
    ("save_steps", "save_every"),
    ("seed", "seed"),
];

impl Config {
    /// Everything wrong with the options by themselves.
    pub fn every_problem(&self) -> Vec<OptionProblem> {
        let mut problems = self.save.problems("/save");
        let counts =
            [("/steps", self.steps), ("/batch_rows", self.batch_rows), ("/micro_batch_rows", self.micro_batch_rows)];
        problems.extend(counts.into_iter().filter_map(|(place, count)| OptionProblem::outside(place, count, 1..)));
        if self.micro_batch_rows > 0 && !self.batch_rows.is_multiple_of(self.micro_batch_rows) {
            let message = format!("{} rows do not divide {}", self.micro_batch_rows, self.batch_rows);
            problems.push(OptionProblem::new("/micro_batch_rows", message).help("use a divisor of `batch_rows`"));
        }
        if self.learning_rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            problems.push(OptionProblem::new("/learning_rate", "a learning rate is above 0"));
        }
        if self.python.is_empty() {
            problems.push(OptionProblem::new("/python", "no program is named").help("write for example `python3`"));
        }
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !self.version.split('.').all(digits) {
            let problem = OptionProblem::new("/version", format!("`{}` is no version", self.version));
            problems.push(problem.help("write for example `1` or `1.16`, in quotes"));
        }
        for (key, option) in OURS.iter().filter(|(key, _)| self.config.contains_key(*key)) {
            let problem = OptionProblem::new(format!("/config/{key}"), format!("`{key}` is decided by the stage"));
            problems.push(problem.help(format!("use the option `{option}`")));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mistakes_are_found_at_their_places() {
        let places = |options: Value| -> Vec<String> {
            let config: Config = serde_json::from_value(options).unwrap();
            config.every_problem().into_iter().map(|problem| problem.pointer).collect()
        };
        assert!(places(json!({})).is_empty());
        assert!(places(json!({"version": "1.16.0", "batch_rows": 16, "config": {"packing": true}})).is_empty());
        assert_eq!(places(json!({"steps": 0})), ["/steps"]);
        assert_eq!(places(json!({"batch_rows": 6, "micro_batch_rows": 4})), ["/micro_batch_rows"]);
        assert_eq!(places(json!({"version": ">=1", "learning_rate": 0.0})), ["/learning_rate", "/version"]);
        assert_eq!(places(json!({"config": {"max_steps": 3, "seed": 1}})), ["/config/max_steps", "/config/seed"]);
    }
}
