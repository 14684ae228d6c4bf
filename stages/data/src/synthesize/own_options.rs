//! Options of the methods `process` and `http`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_envs::programs::{Batch, PeerOptions};

/// A generator of one's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline, bound = "P: PeerOptions")]
pub struct OwnGenerator<P> {
    /// Who makes problems.
    #[serde(flatten)]
    pub peer: P,
    /// The most problems in one request.
    pub batch: Batch,
    /// With `trainyard_bridge`, which function is meant, if the program has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Levels are 1 to this number.
    #[schemars(range(min = 1, max = 1000))]
    pub levels: u32,
}

impl<P: Default> Default for OwnGenerator<P> {
    fn default() -> Self {
        Self { peer: P::default(), batch: Batch::default(), name: String::new(), levels: 5 }
    }
}
