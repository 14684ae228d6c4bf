//! Defines the options of `data/synthesize`.

use super::custom_options::CustomGenerator;
use super::splits::{Split, default_splits};
use super::teacher_options::Teacher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_envs::programs::ServiceOptions;
use trainyard_process::ProgramOptions;

/// Options of `data/synthesize`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SynthesisConfig {
    /// `procedural` makes new problems with the environment's generator; `annotated` turns worked solutions into tool
    /// use; `teacher` lets a model at an endpoint play given problems; `process` and `http` take problems and turns
    /// from a user-defined program or service.
    pub method: String,
    /// Environment that poses the problems; demonstrations are played in it. The method's default if omitted.
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// Seed of all random draws.
    #[serde(default)]
    pub seed: u64,
    /// For `procedural`, `process` and `http`: the number of problems by level in each split.
    #[serde(default = "default_splits")]
    pub splits: BTreeMap<String, Split>,
    /// For `procedural`: share of demonstrations in which the agent first makes a mistake and then recovers.
    #[serde(default = "default_mistakes")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub mistakes: f64,
    /// For `teacher`: the model, and its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<Teacher>,
    /// For `process`: the program, with a function `@generator` if it is in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<CustomGenerator<ProgramOptions>>,
    /// For `http`: the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<CustomGenerator<ServiceOptions>>,
}

fn default_mistakes() -> f64 {
    0.1
}
