//! Rule `expression`: a SQL expression over the columns of the trajectories, e.g. `tool_errors <= 1 and level < 4`.
//!
//! Refuses: expressions that are not true or false for a row (null counts as not true).

use super::rule::{Judgment, Rule, World};
use crate::io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::Trajectory;

/// Keeps the rows for which an expression is true.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expression {
    /// A SQL expression over columns of the trajectories.
    pub keep: String,
}

impl PartOptions for Expression {
    const KIND: &'static str = "expression";
    const SUMMARY: &'static str = "a SQL expression over the columns is true";
    const DOC: &'static str = "Keeps the rows for which the SQL expression `keep` over the columns of the trajectories is true, as in `tool_errors <= 1 and level < 4`; null\n\
        counts as not true. Reason: not_true.";
}

impl Rule for Expression {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], world: &World<'_>) -> Result<Vec<Judgment>> {
        let mask = io::trajectory_mask(rows, &self.keep, world.scratch)?;
        Ok(mask
            .into_iter()
            .map(|keep| if keep { Judgment::Keep } else { Judgment::reject("not_true", self.keep.clone()) })
            .collect())
    }
}
