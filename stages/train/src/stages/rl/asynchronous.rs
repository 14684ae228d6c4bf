//! Defines the options of asynchronous rollouts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of asynchronous rollouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AsyncOptions {
    /// Limit of updates between the weights of a rollout's oldest token and the update that uses it.
    #[schemars(range(min = 0, max = 1000))]
    pub max_staleness: u64,
}

impl Default for AsyncOptions {
    fn default() -> Self {
        Self { max_staleness: 4 }
    }
}
