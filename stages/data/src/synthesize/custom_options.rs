//! Defines the options of the methods `process` and `http`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_envs::programs::{BatchSize, CustomCodeOptions};

/// A user-defined generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline, bound = "P: CustomCodeOptions")]
pub struct CustomGenerator<P> {
    /// Program or service that makes problems.
    #[serde(flatten)]
    pub peer: P,
    /// Maximum problems in one request.
    pub batch: BatchSize,
    /// With `trainyard_bridge`, the name of the function, if the program has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Highest level; the lowest is 1.
    #[schemars(range(min = 1, max = 1000))]
    pub levels: u32,
}

impl<P: Default> Default for CustomGenerator<P> {
    fn default() -> Self {
        Self { peer: P::default(), batch: BatchSize::default(), name: String::new(), levels: 5 }
    }
}
