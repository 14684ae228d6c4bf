//! Options of `data/frame`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default of `max_rows`.
const MAX_ROWS: u64 = 10_000_000;
/// Largest value of `max_rows`: frames number their rows by 32 bits.
pub const MOST_ROWS: u64 = u32::MAX as u64 - 1;

/// Kind of the rows of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FrameOutput {
    /// Rows of any columns.
    #[default]
    Table,
    /// Problems.
    Problems,
    /// Trajectories.
    Trajectories,
}

impl FrameOutput {
    /// Returns the name of the output port.
    pub fn port(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Problems => "problems",
            Self::Trajectories => "trajectories",
        }
    }
}

/// Options of `data/frame`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameConfig {
    /// One SELECT over the inputs, whose names are those of the tables.
    pub sql: String,
    /// Kind of the rows, and name of the output: `table` for any columns, `problems` or `trajectories` for the columns
    /// of these kinds.
    #[serde(default)]
    pub output: FrameOutput,
    /// Seed of the numbers of `random(…)`.
    #[serde(default)]
    pub seed: u64,
    /// Maximum rows of the result, and of every join. With more, the stage fails.
    #[serde(default = "max_rows")]
    #[schemars(range(min = 1, max = 4_294_967_294_u64))]
    pub max_rows: u64,
}

fn max_rows() -> u64 {
    MAX_ROWS
}
