//! Defines the limits of one tool call. They are options of the environment because all but time can change a result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use trainyard_core::OptionProblem;

/// Limits of one call. Only time is not deterministic: an episode that hits it is an infrastructure failure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLimits {
    /// Milliseconds that one call may run. A worker that does not stop by itself is killed one second later.
    #[schemars(range(min = 10, max = 600_000))]
    pub time_millis: u64,
    /// Bytes of address space that a worker may add after its start, for all its sessions together; with `cpython`,
    /// that the process of a session may add.
    #[schemars(range(min = 33_554_432u64))]
    pub memory_bytes: u64,
    /// Bytes of output and value that a call may return; more is an error.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub output_bytes: u64,
    /// Maximum depth of nested function calls; `cpython` has its own limit.
    #[schemars(range(min = 10, max = 1000))]
    pub recursion_depth: u32,
    /// Requests to the host (unknown names, files, clocks) that one call may make. All are denied. Not used by
    /// `cpython`.
    #[schemars(range(min = 1, max = 1000))]
    pub suspensions: u32,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            time_millis: 2_000,
            memory_bytes: 256 << 20,
            output_bytes: 2_048,
            recursion_depth: 200,
            suspensions: 100,
        }
    }
}

impl ToolLimits {
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.time_millis)
    }
    /// Returns a problem for every value out of range; `pointer` is the location of these options.
    pub fn check(&self, pointer: &str) -> Vec<OptionProblem> {
        let ranges = [
            ("/time_millis", self.time_millis, 10, 600_000),
            ("/memory_bytes", self.memory_bytes, 32 << 20, u64::MAX),
            ("/output_bytes", self.output_bytes, 16, 1 << 20),
            ("/recursion_depth", u64::from(self.recursion_depth), 10, 1000),
            ("/suspensions", u64::from(self.suspensions), 1, 1000),
        ];
        let outside = ranges
            .into_iter()
            .filter_map(|(name, value, low, high)| OptionProblem::out_of_range(name, value, low..=high));
        outside.map(|problem| problem.with_prefix(pointer)).collect()
    }
}
